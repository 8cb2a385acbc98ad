/** Code points, both ends included. */
export type CodeRange = readonly [low: number, high: number];

/** An expression of llama.cpp's grammar language. A choice without options matches nothing. */
export type Gbnf =
  | Literal
  | CharSet
  | { readonly kind: "sequence"; readonly parts: readonly Gbnf[] }
  | { readonly kind: "choice"; readonly options: readonly Gbnf[] }
  | { readonly kind: "repeat"; readonly part: Gbnf; readonly min: number; readonly max: number | undefined }
  | { readonly kind: "rule"; readonly name: string }
  | FreeText;

/** A text; in `isMarkup`, the spellings of the model's marks are their tokens, where the writer is given those. */
type Literal = { readonly kind: "literal"; readonly text: string; readonly isMarkup: boolean };

/**
 * Any text that contains none of `without`, up to the first of the marks if one comes, and the rule behind that mark. A
 * rule of its own: only the reader of xgrammar takes it, which holds text by character rules in seconds, and this in
 * milliseconds.
 */
export type FreeText = {
  readonly kind: "until";
  readonly ends: readonly { readonly mark: string; readonly behind: Gbnf }[];
  readonly without: readonly string[];
};

/** One character inside (`chars`) or outside (`except`) of the ranges. */
type CharSet = {
  readonly kind: "chars" | "except";
  readonly ranges: readonly CodeRange[];
  /** The cached text of the set: grammars write the same few sets often. */
  written: string | undefined;
};

/** Matches the empty text, and nothing else. NEVER matches no text: in a sequence it makes the whole one NEVER. */
export const EMPTY: Gbnf = { kind: "sequence", parts: [] };
export const NEVER: Gbnf = { kind: "choice", options: [] };

export function literal(text: string): Gbnf {
  return text === "" ? EMPTY : { kind: "literal", text, isMarkup: false };
}

/** A text that the model's template writes; what callers have chosen must be a `literal`. */
export function markup(text: string): Gbnf {
  return text === "" ? EMPTY : { kind: "literal", text, isMarkup: true };
}

export function chars(...ranges: CodeRange[]): Gbnf {
  return ranges.length === 0 ? NEVER : { kind: "chars", ranges, written: undefined };
}

export function except(...ranges: CodeRange[]): Gbnf {
  return { kind: "except", ranges, written: undefined };
}

/** Matches one character of inclusive ranges, each given as a pair of characters: `charsOf("09", "az")`. */
export function charsOf(...pairs: string[]): Gbnf {
  return chars(...pairs.map((pair): CodeRange => [pair.charCodeAt(0), pair.charCodeAt(1)]));
}

export function rule(name: string): Gbnf {
  return { kind: "rule", name };
}

/** Joins parts, literals that follow each other into one: `sequence(literal("a"), literal("b"))` is `literal("ab")`. */
export function sequence(...parts: Gbnf[]): Gbnf {
  const flat = isFlat(parts) ? parts : flattened(parts);
  return flat.length === 1 && flat[0] ? flat[0] : { kind: "sequence", parts: flat };
}

/** Most lists need no flattening, and a copy takes much memory. */
function isFlat(parts: readonly Gbnf[]): boolean {
  let isText = false;
  for (const { kind } of parts) {
    if (kind === "sequence" || (isText && kind === "literal")) return false;
    isText = kind === "literal";
  }
  return true;
}

function flattened(parts: readonly Gbnf[]): Gbnf[] {
  const flat: Gbnf[] = [];
  for (const part of parts)
    if (part.kind === "sequence") for (const each of part.parts) append(flat, each);
    else append(flat, part);
  return flat;
}

function append(flat: Gbnf[], part: Gbnf): void {
  const last = part.kind === "literal" ? flat.at(-1) : undefined;
  if (part.kind === "literal" && last?.kind === "literal" && part.isMarkup === last.isMarkup)
    flat[flat.length - 1] = { ...last, text: last.text + part.text };
  else flat.push(part);
}

/** Joins options, those of choices among them into one list. Without options it is NEVER. */
export function choice(...options: Gbnf[]): Gbnf {
  const flat = options.some(({ kind }) => kind === "choice") ? options.flatMap(optionsOf) : options;
  return flat.length === 1 && flat[0] ? flat[0] : { kind: "choice", options: flat };
}

function optionsOf(node: Gbnf): Gbnf | readonly Gbnf[] {
  return node.kind === "choice" ? node.options : node;
}

export function optional(part: Gbnf): Gbnf {
  return repeat(part, 0, 1);
}

/** Repeats a part, without bound if `max` is undefined. A repetition of nothing is nothing. */
export function repeat(part: Gbnf, min: number, max: number | undefined): Gbnf {
  if (max === 0 || (part.kind === "sequence" && part.parts.length === 0)) return EMPTY;
  return min === 1 && max === 1 ? part : { kind: "repeat", part, min, max };
}

/** The program that reads a grammar, and the tokens of the model's marks in it by their spellings. */
export type GrammarReader = {
  readonly name: "llama.cpp" | "xgrammar";
  readonly tokens?: Readonly<Record<string, number>>;
};

export const LLAMA_CPP: GrammarReader = { name: "llama.cpp" };

/** Undefined if the text is longer than `maxLength` characters; writing stops soon after the limit. */
export function grammarText(
  root: Gbnf,
  rules: ReadonlyMap<string, Gbnf>,
  maxLength: number,
  reader = LLAMA_CPP,
): string | undefined {
  const writer = new GrammarWriter(rules, reader);
  let text = `root ::= ${writer.write(root, "top")}\n`;
  for (const [name, body] of rules) {
    text += `${name} ::= ${writer.write(body, "top")}\n`;
    if (text.length > maxLength) return undefined;
  }
  return text.length > maxLength ? undefined : text;
}

/** Writes one grammar. `within` is the operator around an expression, which decides whether it needs brackets. */
class GrammarWriter {
  readonly #rules: ReadonlyMap<string, Gbnf>;
  readonly #reader: GrammarReader;
  readonly #marks: RegExp | undefined;

  constructor(rules: ReadonlyMap<string, Gbnf>, reader: GrammarReader) {
    this.#rules = rules;
    this.#reader = reader;
    // The longest first: of two marks at one position, a tokenizer takes the longer.
    const spellings = Object.keys(reader.tokens ?? {}).sort((a, b) => b.length - a.length);
    const escaped = spellings.map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    this.#marks = escaped.length > 0 ? new RegExp(`(${escaped.join("|")})`) : undefined;
  }

  write(node: Gbnf, within: "top" | "sequence" | "repeat"): string {
    switch (node.kind) {
      case "literal":
        return this.#writeLiteral(node, within);
      case "chars":
      case "except":
        return writeSet(node);
      case "rule":
        return node.name;
      case "until":
        return this.#writeFreeText(node);
      case "sequence": {
        if (node.parts.length === 0) return '""';
        const text = this.#writeAll(node.parts, "sequence", " ");
        return within === "repeat" ? `(${text})` : text;
      }
      case "choice": {
        const text = this.#writeAll(
          node.options.flatMap((option) => optionsOf(this.#plain(option))),
          "top",
          " | ",
        );
        return within === "top" ? text : `(${text})`;
      }
      case "repeat": {
        const part = node.max === undefined ? this.#plain(node.part) : node.part;
        const text = this.write(part, "repeat") + writeCount(node.min, node.max);
        return within === "repeat" ? `(${text})` : text;
      }
    }
  }

  /**
   * Returns the body of a rule of single characters and their escapes, for xgrammar: it looks through its whole
   * vocabulary for each token of a text that is a repetition of rules, and for none of a repetition of characters.
   */
  #plain(node: Gbnf): Gbnf {
    if (this.#reader.name !== "xgrammar" || node.kind !== "rule") return node;
    const body = this.#rules.get(node.name);
    return body?.kind === "choice" && body.options.every(isPlain) ? body : node;
  }

  #writeLiteral({ text, isMarkup }: Literal, within: "top" | "sequence" | "repeat"): string {
    if (!isMarkup || this.#marks === undefined) return `"${writeText(text)}"`;
    const parts = text.split(this.#marks).filter((part) => part !== "");
    const written = parts.map((part) => {
      const token = this.#reader.tokens?.[part];
      if (token === undefined) return `"${writeText(part)}"`;
      return this.#reader.name === "xgrammar" ? `Token(${token})` : `<[${token}]>`;
    });
    return within === "repeat" && written.length > 1 ? `(${written.join(" ")})` : written.join(" ");
  }

  /** Writes `TagDispatch`, the form that xgrammar has for text with marks. */
  #writeFreeText({ ends, without }: FreeText): string {
    const tags = ends.map(({ mark, behind }) => `("${writeText(mark)}", ${this.write(behind, "sequence")})`);
    const texts = without.map((text) => `"${writeText(text)}"`);
    const excludes = texts.length > 0 ? [`excludes=(${texts.join(", ")})`] : [];
    return `TagDispatch(${[...tags, "loop_after_dispatch=false", ...excludes].join(", ")})`;
  }

  #writeAll(nodes: readonly Gbnf[], within: "top" | "sequence", between: string): string {
    let text = "";
    for (const node of nodes) text += text === "" ? this.write(node, within) : between + this.write(node, within);
    return text;
  }
}

function isPlain(node: Gbnf): boolean {
  if (node.kind === "sequence") return node.parts.every(({ kind }) => kind === "chars" || kind === "literal");
  return node.kind === "chars" || node.kind === "except" || node.kind === "literal";
}

/** Writes a set of characters, which is also its name among rules that are known by their text. */
export function writeSet(set: CharSet): string {
  if (set.written !== undefined) return set.written;
  let text = set.kind === "chars" ? "[" : "[^";
  for (const range of set.ranges) text += writeRange(range);
  text += "]";
  // The set caches its text: a weak map would grow with every grammar, and every garbage collection would walk it.
  set.written = text;
  return text;
}

/** The characters that a text in quotes does not hold as they are: all but printable ASCII, quotes and backslashes. */
const ESCAPED_IN_TEXT = /[^ !#-[\]-~]/gu;

function writeText(text: string): string {
  return text.replace(ESCAPED_IN_TEXT, writeChar);
}

/** The short escapes that llama.cpp, xgrammar and llguidance read alike, in texts and in sets. */
const IN_TEXT: Readonly<Record<string, string>> = { '"': '\\"', "\\": "\\\\", "\n": "\\n" };
const IN_SET: Readonly<Record<string, string>> = { "\\": "\\\\", "[": "\\[", "]": "\\]", "\n": "\\n" };

function writeChar(char: string): string {
  return IN_TEXT[char] ?? writeCode(char.codePointAt(0) ?? 0, "");
}

function writeCount(min: number, max: number | undefined): string {
  if (max === undefined) return min === 0 ? "*" : min === 1 ? "+" : `{${min},}`;
  if (min === 0 && max === 1) return "?";
  return min === max ? `{${min}}` : `{${min},${max}}`;
}

function writeRange([low, high]: CodeRange): string {
  return low === high ? writeInSet(low) : `${writeInSet(low)}-${writeInSet(high)}`;
}

function writeInSet(code: number): string {
  return IN_SET[String.fromCodePoint(code)] ?? writeCode(code, "^-");
}

/** Writes one character: plain ASCII unchanged, the rest as a number, independent of the reader's encoding. */
function writeCode(code: number, special: string): string {
  const char = String.fromCodePoint(code);
  if (code >= 0x20 && code < 0x7f && !special.includes(char)) return char;
  const hex = code.toString(16).toUpperCase();
  // Not `\x`: one reader takes as many digits as follow it.
  return code <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}
