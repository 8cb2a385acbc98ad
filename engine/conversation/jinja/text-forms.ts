/** Control characters that separate files, groups and records; Python treats them as white space. */
const SEPARATORS = String.raw`\u001c-\u001e`;
const SPACES = new RegExp(String.raw`[\s${SEPARATORS}\u001f\u0085]+`, "u");
const LINE_END = new RegExp(String.raw`\r\n|[\n\r\v\f${SEPARATORS}\u0085\u2028\u2029]`, "g");

export type Ends = { readonly start: boolean; readonly end: boolean };

export function stripped(text: string, characters: string | undefined, { start, end }: Ends): string {
  const isCut = (one: string) =>
    characters === undefined ? SPACES.test(one) && one !== "\ufeff" : one !== "" && characters.includes(one);
  let from = 0;
  let to = text.length;
  for (let one = characterAt(text, from); start && isCut(one); one = characterAt(text, from)) from += one.length;
  for (let one = characterBefore(text, to); end && to > from && isCut(one); one = characterBefore(text, to)) {
    to -= one.length;
  }
  return text.slice(from, to);
}

function characterAt(text: string, at: number): string {
  const point = text.codePointAt(at);
  return point === undefined ? "" : String.fromCodePoint(point);
}

/** Returns the character before a position; it may have two units. */
function characterBefore(text: string, end: number): string {
  const wide = characterAt(text, end - 2);
  return wide.length === 2 ? wide : text.slice(Math.max(0, end - 1), end);
}

/** Splits at most `most` times from the left; a negative `most` is unlimited. */
export function split(text: string, separator: string | undefined, most: number): readonly string[] {
  if (separator === "") throw new Error("empty separator");
  const rest = separator === undefined ? stripped(text, undefined, { start: true, end: false }) : text;
  const parts: string[] = [];
  let from = 0;
  while (most < 0 || parts.length < most) {
    const [at, length] =
      separator === undefined ? nextSpace(rest, from) : [rest.indexOf(separator, from), separator.length];
    if (at < 0) break;
    parts.push(rest.slice(from, at));
    from = at + length;
  }
  const last = rest.slice(from);
  return separator === undefined && last === "" ? parts : [...parts, last];
}

function nextSpace(text: string, from: number): readonly [at: number, length: number] {
  const spaces = new RegExp(SPACES, "gu");
  spaces.lastIndex = from;
  const found = spaces.exec(text);
  return found ? [found.index, found[0].length] : [-1, 0];
}

export function splitFromRight(text: string, separator: string | undefined, most: number): readonly string[] {
  const turned = (one: string) => [...one].reverse().join("");
  const parts = split(turned(text), separator === undefined ? undefined : turned(separator), most);
  return parts.map(turned).reverse();
}

export function linesOf(text: string): readonly string[] {
  const lines = text.split(LINE_END);
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
}

export function replaced(text: string, old: string, by: string, most: number): string {
  let left = most < 0 ? Number.POSITIVE_INFINITY : most;
  return text.replaceAll(old, (found) => (left-- > 0 ? by : found));
}

export function titled(text: string): string {
  return text.replace(/[^\s\-({[<]+/g, capitalized);
}

export function capitalized(text: string): string {
  const [first = "", ...rest] = text;
  return first.toUpperCase() + rest.join("").toLowerCase();
}

export function indented(text: string, by: string, { first, blank }: { first: boolean; blank: boolean }): string {
  const lines = linesOf(`${text}\n`);
  const rest = lines.map((line, at) => ((at === 0 ? first : line !== "" || blank) ? by + line : line));
  return rest.join("\n");
}

export function escapedForHtml(text: string): string {
  return text.replace(/[&<>"']/g, (unit) =>
    `&#${unit.charCodeAt(0)};`.replace("&#38;", "&amp;").replace("&#60;", "&lt;").replace("&#62;", "&gt;"),
  );
}

/** Formats a pattern as Python's `str.format` does: `{}`, `{0}` and `{name}`. */
export function formatted(pattern: string, textOf: (name: string) => string): string {
  let next = 0;
  return pattern.replace(/\{\{|\}\}|\{(\w*)\}|[{}]/g, (found, name: string | undefined) => {
    if (found === "{{" || found === "}}") return found[0] ?? "";
    if (name === undefined) throw new Error("a pattern of format() that is not known here");
    return textOf(name === "" ? String(next++) : name);
  });
}
