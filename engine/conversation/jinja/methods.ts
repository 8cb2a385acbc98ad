import { isEqual, pythonText, type Quote } from "./operators.ts";
import {
  boolean,
  type CallArguments,
  callable,
  type DictValue,
  dict,
  integer,
  isDict,
  isList,
  isNone,
  isText,
  itemsOf,
  keyOf,
  keyValue,
  type ListValue,
  list,
  NONE,
  text,
  tuple,
  UNDEFINED,
  type Value,
} from "./values.ts";

/** Control characters that separate files, groups and records; Python treats them as white space. */
const SEPARATORS = String.raw`\u001c-\u001e`;
const SPACES = new RegExp(String.raw`[\s${SEPARATORS}\u001f\u0085]+`, "u");
const LINE_END = new RegExp(String.raw`\r\n|[\n\r\v\f${SEPARATORS}\u0085\u2028\u2029]`, "g");

type Ends = { readonly start: boolean; readonly end: boolean };

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
function split(text: string, separator: string | undefined, most: number): readonly string[] {
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

function splitFromRight(text: string, separator: string | undefined, most: number): readonly string[] {
  const turned = (one: string) => [...one].reverse().join("");
  const parts = split(turned(text), separator === undefined ? undefined : turned(separator), most);
  return parts.map(turned).reverse();
}

function linesOf(text: string): readonly string[] {
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
function formatted(pattern: string, textOf: (name: string) => string): string {
  let next = 0;
  return pattern.replace(/\{\{|\}\}|\{(\w*)\}|[{}]/g, (found, name: string | undefined) => {
    if (found === "{{" || found === "}}") return found[0] ?? "";
    if (name === undefined) throw new Error("a pattern of format() that is not known here");
    return textOf(name === "" ? String(next++) : name);
  });
}

const part = (options: Intl.DateTimeFormatOptions) => {
  const format = new Intl.DateTimeFormat("en-US", options);
  return (date: Date) => format.format(date);
};
const two = (number: number) => String(number).padStart(2, "0");

const FIELDS: Readonly<Record<string, (date: Date) => string>> = {
  "%": () => "%",
  A: part({ weekday: "long" }),
  B: part({ month: "long" }),
  H: (date) => two(date.getHours()),
  I: (date) => two(date.getHours() % 12 || 12),
  M: (date) => two(date.getMinutes()),
  S: (date) => two(date.getSeconds()),
  Y: (date) => String(date.getFullYear()),
  a: part({ weekday: "short" }),
  b: part({ month: "short" }),
  d: (date) => two(date.getDate()),
  m: (date) => two(date.getMonth() + 1),
  p: (date) => (date.getHours() < 12 ? "AM" : "PM"),
  y: (date) => two(date.getFullYear() % 100),
};

/** Formats a time in the machine's time zone by a pattern of Python's `strftime`. Unknown fields stay unchanged. */
export function strftime(date: Date, pattern: string): string {
  return pattern.replace(/%(.)/g, (field, name: string) => FIELDS[name]?.(date) ?? field);
}

type Method<Self> = (self: Self, args: CallArguments, quote: Quote) => Value;
type Methods<Self> = Readonly<Record<string, Method<Self>>>;

export function methodOf(value: Value, name: string, quote: Quote): Value | undefined {
  if (isText(value)) return bound(TEXT_METHODS, value.value, name, quote);
  if (isDict(value)) return bound(DICT_METHODS, value, name, quote);
  return isList(value) ? bound(LIST_METHODS, value, name, quote) : undefined;
}

function bound<Self>(methods: Methods<Self>, self: Self, name: string, quote: Quote): Value | undefined {
  const method = Object.hasOwn(methods, name) ? methods[name] : undefined;
  return method && callable((args) => method(self, args, quote));
}

const texts = (values: readonly string[]): Value => list(values.map(text));

const strip = (start: boolean, end: boolean): Method<string> => {
  return (self, args) => {
    const characters = args.get(0);
    const cut = characters && !isNone(characters) ? args.text(0, "chars", "") : undefined;
    return text(stripped(self, cut, { start, end }));
  };
};

const splitting = (cut: typeof split): Method<string> => {
  return (self, args) => {
    const separator = args.get(0, "sep");
    const at = separator && !isNone(separator) ? args.text(0, "sep", "") : undefined;
    return texts(cut(self, at, args.number(1, "maxsplit", -1)));
  };
};

const asking = (ask: (self: string, other: string) => boolean): Method<string> => {
  return (self, args) => {
    const asked = args.need(0);
    const others = isList(asked) ? asked.value : [asked];
    return boolean(
      others.some((other) => {
        if (!isText(other)) throw new Error("the argument has to be a text or a tuple of texts");
        return ask(self, other.value);
      }),
    );
  };
};

const matching =
  (pattern: RegExp): Method<string> =>
  (self) =>
    boolean(pattern.test(self));

const threeParts = (self: string, at: number, separator: string): Value =>
  tuple([self.slice(0, at), separator, self.slice(at + separator.length)].map(text));

const TEXT_METHODS: Methods<string> = {
  capitalize: (self) => text(capitalized(self)),
  count: (self, args) => integer(self.split(args.text(0, "", "")).length - 1),
  endswith: asking((self, other) => self.endsWith(other)),
  find: (self, args) => integer(self.indexOf(args.text(0, "", ""))),
  format: (self, args, quote) => {
    return text(formatted(self, (name) => pythonText(args.need(/^\d+$/.test(name) ? Number(name) : -1, name), quote)));
  },
  isalnum: matching(/^[\p{L}\p{N}]+$/u),
  isalpha: matching(/^\p{L}+$/u),
  isdigit: matching(/^\p{Nd}+$/u),
  islower: (self) => boolean(self === self.toLowerCase() && self !== self.toUpperCase()),
  isspace: matching(/^\s+$/),
  isupper: (self) => boolean(self === self.toUpperCase() && self !== self.toLowerCase()),
  join: (self, args, quote) =>
    text(
      itemsOf(args.need(0))
        .map((one) => pythonText(one, quote))
        .join(self),
    ),
  lower: (self) => text(self.toLowerCase()),
  lstrip: strip(true, false),
  partition: (self, args) => {
    const separator = args.text(0, "", "");
    const at = self.indexOf(separator);
    return at < 0 ? tuple([self, "", ""].map(text)) : threeParts(self, at, separator);
  },
  removeprefix: (self, args) => {
    const prefix = args.text(0, "", "");
    return text(self.startsWith(prefix) ? self.slice(prefix.length) : self);
  },
  removesuffix: (self, args) => {
    const suffix = args.text(0, "", "");
    return text(suffix !== "" && self.endsWith(suffix) ? self.slice(0, -suffix.length) : self);
  },
  replace: (self, args) => {
    return text(replaced(self, args.text(0, "old", ""), args.text(1, "new", ""), args.number(2, "count", -1)));
  },
  rfind: (self, args) => integer(self.lastIndexOf(args.text(0, "", ""))),
  rpartition: (self, args) => {
    const separator = args.text(0, "", "");
    const at = self.lastIndexOf(separator);
    return at < 0 ? tuple(["", "", self].map(text)) : threeParts(self, at, separator);
  },
  rsplit: splitting(splitFromRight),
  rstrip: strip(false, true),
  split: splitting(split),
  splitlines: (self) => texts(linesOf(self)),
  startswith: asking((self, other) => self.startsWith(other)),
  strip: strip(true, true),
  title: (self) => text(titled(self)),
  upper: (self) => text(self.toUpperCase()),
};

const DICT_METHODS: Methods<DictValue> = {
  copy: (self) => dict(new Map(self.value)),
  get: (self, args) => {
    const key = keyOf(args.need(0));
    return (key === undefined ? undefined : self.value.get(key)) ?? args.get(1) ?? NONE;
  },
  items: (self) => list([...self.value].map(([key, value]) => tuple([keyValue(key), value]))),
  keys: (self) => list([...self.value.keys()].map(keyValue)),
  values: (self) => list([...self.value.values()]),
};

/** transformers forbids the methods that change a list, but templates written for llama.cpp use them. */
const LIST_METHODS: Methods<ListValue> = {
  append: (self, args) => {
    self.value.push(args.need(0));
    return NONE;
  },
  copy: (self) => list([...self.value]),
  count: (self, args) => integer(self.value.filter((one) => isEqual(one, args.need(0))).length),
  index: (self, args) => {
    const at = self.value.findIndex((one) => isEqual(one, args.need(0)));
    if (at < 0) throw new Error("the list has no such item");
    return integer(at);
  },
  pop: (self, args) => self.value.splice(args.number(0, "", -1), 1)[0] ?? UNDEFINED,
};
