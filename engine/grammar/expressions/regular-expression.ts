import type { CodeRange } from "../../gbnf/gbnf.ts";

/** All code points except surrogates. */
export const ALL_CODES: readonly CodeRange[] = [
  [0, 0xd7ff],
  [0xe000, 0x10ffff],
];

export function unite(ranges: readonly CodeRange[]): readonly CodeRange[] {
  const result: [number, number][] = [];
  for (const [low, high] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const last = result.at(-1);
    if (last !== undefined && low <= last[1] + 1) last[1] = Math.max(last[1], high);
    else result.push([low, high]);
  }
  return result;
}

export function subtract(from: readonly CodeRange[], taken: readonly CodeRange[]): readonly CodeRange[] {
  const gone = unite(taken);
  const left: CodeRange[] = [];
  let at = 0;
  for (const [start, end] of unite(from)) {
    let low = start;
    while (at < gone.length && (gone[at]?.[1] ?? 0) < low) at += 1;
    for (let i = at; low <= end; i += 1) {
      const [goneFrom, goneTo] = gone[i] ?? [end + 1, end + 1];
      if (goneFrom > low) left.push([low, Math.min(end, goneFrom - 1)]);
      low = Math.max(low, goneTo + 1);
    }
  }
  return left;
}

export function includes(ranges: readonly CodeRange[], code: number): boolean {
  return ranges.some(([low, high]) => low <= code && code <= high);
}

export type Expression =
  | { readonly kind: "set"; readonly ranges: readonly CodeRange[] }
  | { readonly kind: "sequence"; readonly parts: readonly Expression[] }
  | { readonly kind: "choice"; readonly options: readonly Expression[] }
  | { readonly kind: "repeat"; readonly part: Expression; readonly min: number; readonly max: number | undefined }
  | { readonly kind: "start" | "end" };

/** No stack: a schema may have thousands of such patterns, and a stack costs as much as parsing one. */
export class UnsupportedPattern extends Error {
  constructor() {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super();
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** Undefined where `make` throws `UnsupportedPattern`. */
export function ifSupported<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch (error) {
    if (error instanceof UnsupportedPattern) return undefined;
    throw error;
  }
}

const MAX_LENGTH = 1024;
const MAX_NESTING = 16;

const range = (pair: string): CodeRange => [pair.charCodeAt(0), pair.charCodeAt(1)];
const DIGITS = [range("09")];
const WORD = [range("09"), range("AZ"), range("__"), range("az")];
/** White space of ECMAScript, in expressions and in `trim`. */
export const SPACES: readonly CodeRange[] = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const LINE_ENDS: readonly CodeRange[] = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
const CLASSES: Readonly<Record<string, readonly CodeRange[]>> = {
  d: DIGITS,
  w: WORD,
  s: SPACES,
  D: subtract(ALL_CODES, DIGITS),
  W: subtract(ALL_CODES, WORD),
  S: subtract(ALL_CODES, SPACES),
};
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, 0: 0 };

/**
 * The subset of ECMAScript that a grammar can enforce. Throws `UnsupportedPattern` for look-around, back references,
 * `\b`, properties and flags, and beyond `maxLength` characters. The pattern must be valid.
 */
export function parseExpression(pattern: string, maxLength = MAX_LENGTH): Expression {
  if (pattern.length > maxLength) throw new UnsupportedPattern();
  const parser = new Parser([...pattern]);
  return parser.alternatives(0);
}

class Parser {
  readonly #chars: readonly string[];
  #at = 0;

  constructor(chars: readonly string[]) {
    this.#chars = chars;
  }

  alternatives(depth: number): Expression {
    if (depth > MAX_NESTING) throw new UnsupportedPattern();
    const options = [this.#terms(depth)];
    while (this.#take("|")) options.push(this.#terms(depth));
    if (depth === 0 && this.#at < this.#chars.length) throw new UnsupportedPattern();
    return options.length === 1 && options[0] ? options[0] : { kind: "choice", options };
  }

  #peek(): string {
    return this.#chars[this.#at] ?? "";
  }

  #next(): string {
    const char = this.#peek();
    if (char === "") throw new UnsupportedPattern();
    this.#at += 1;
    return char;
  }

  #take(char: string): boolean {
    if (this.#peek() !== char) return false;
    this.#at += 1;
    return true;
  }

  #terms(depth: number): Expression {
    const parts: Expression[] = [];
    while (this.#peek() !== "" && this.#peek() !== "|" && this.#peek() !== ")") {
      if (this.#take("^")) parts.push({ kind: "start" });
      else if (this.#take("$")) parts.push({ kind: "end" });
      else parts.push(this.#quantified(this.#atom(depth)));
    }
    return { kind: "sequence", parts };
  }

  #quantified(part: Expression): Expression {
    const count = this.#count();
    if (count === undefined) return part;
    this.#take("?"); // a lazy quantifier has the same language
    return { kind: "repeat", part, ...count };
  }

  #count(): { readonly min: number; readonly max: number | undefined } | undefined {
    if (this.#take("*")) return { min: 0, max: undefined };
    if (this.#take("+")) return { min: 1, max: undefined };
    if (this.#take("?")) return { min: 0, max: 1 };
    if (this.#peek() !== "{") return undefined;
    const end = this.#chars.indexOf("}", this.#at);
    const [min = "", max, ...others] = this.#chars
      .slice(this.#at + 1, Math.max(end, 0))
      .join("")
      .split(",");
    if (!isCount(min) || others.length > 0 || !(max === undefined || max === "" || isCount(max))) {
      throw new UnsupportedPattern();
    }
    this.#at = end + 1;
    if (max === "") return { min: Number(min), max: undefined };
    return { min: Number(min), max: Number(max ?? min) };
  }

  #atom(depth: number): Expression {
    const char = this.#next();
    if (char === "(") return this.#group(depth);
    if (char === "[") return { kind: "set", ranges: this.#class() };
    if (char === ".") return { kind: "set", ranges: subtract(ALL_CODES, LINE_ENDS) };
    if (char === "\\") return { kind: "set", ranges: this.#escaped(false) };
    if ("*+?{}".includes(char)) throw new UnsupportedPattern();
    return { kind: "set", ranges: one(char.codePointAt(0) ?? 0) };
  }

  #group(depth: number): Expression {
    if (this.#take("?") && !this.#take(":")) {
      if (!this.#take("<") || "=!".includes(this.#peek())) throw new UnsupportedPattern();
      while (this.#next() !== ">") {}
    }
    const inside = this.alternatives(depth + 1);
    if (!this.#take(")")) throw new UnsupportedPattern();
    return inside;
  }

  #class(): readonly CodeRange[] {
    const isNegated = this.#take("^");
    const ranges: CodeRange[] = [];
    while (!this.#take("]")) {
      const low = this.#classItem();
      if (this.#peek() !== "-" || this.#chars[this.#at + 1] === "]") {
        ranges.push(...low);
        continue;
      }
      this.#at += 1;
      const high = this.#classItem();
      const [from] = low[0] ?? [];
      const [to] = high[0] ?? [];
      if (!isOne(low) || !isOne(high) || from === undefined || to === undefined) throw new UnsupportedPattern();
      ranges.push([from, to]);
    }
    return isNegated ? subtract(ALL_CODES, ranges) : subtract(unite(ranges), [[0xd800, 0xdfff]]);
  }

  #classItem(): readonly CodeRange[] {
    const char = this.#next();
    return char === "\\" ? this.#escaped(true) : one(char.codePointAt(0) ?? 0);
  }

  #escaped(inClass: boolean): readonly CodeRange[] {
    const char = this.#next();
    const known = Object.hasOwn(CLASSES, char) ? CLASSES[char] : undefined;
    if (known !== undefined) return known;
    if (Object.hasOwn(CONTROLS, char) && !(char === "0" && isCount(this.#peek()))) return one(CONTROLS[char] ?? 0);
    if (char === "x") return one(this.#hex(2));
    if (char === "u") return one(this.#unicode());
    if (inClass && char === "b") return one(8);
    // Any other letter or digit is a look-around, a back reference, a property or an error.
    if (WORD.some(([low, high]) => low <= char.charCodeAt(0) && char.charCodeAt(0) <= high))
      throw new UnsupportedPattern();
    return one(char.codePointAt(0) ?? 0);
  }

  #unicode(): number {
    if (!this.#take("{")) {
      const unit = this.#hex(4);
      if (unit >= 0xd800 && unit <= 0xdfff) throw new UnsupportedPattern();
      return unit;
    }
    let length = 0;
    while (this.#chars[this.#at + length] !== "}" && length < 7) length += 1;
    const code = this.#hex(length);
    if (!this.#take("}") || code > 0x10ffff) throw new UnsupportedPattern();
    return code;
  }

  #hex(length: number): number {
    let code = 0;
    for (let i = 0; i < length; i += 1) {
      const digit = "0123456789abcdef".indexOf(this.#next().toLowerCase());
      if (digit < 0) throw new UnsupportedPattern();
      code = code * 16 + digit;
    }
    return code;
  }
}

const one = (code: number): readonly CodeRange[] => [[code, code]];
const isOne = (ranges: readonly CodeRange[]) => ranges.length === 1 && ranges[0]?.[0] === ranges[0]?.[1];

function isCount(text: string): boolean {
  return text !== "" && text.length <= 6 && [...text].every((char) => char >= "0" && char <= "9");
}

/**
 * Whether an expression matches anywhere. All readings are followed at once, so that time grows with sizes only.
 * `afford` receives the positions of each step; if it returns false, the result is undefined.
 */
export function matchesExpression(
  expression: Expression,
  text: string,
  afford: (places: number) => boolean,
): boolean | undefined {
  const codes = [...text].map((char) => char.codePointAt(0) ?? 0);
  const ends = (part: Expression, starts: ReadonlySet<number>): ReadonlySet<number> | undefined => {
    if (!afford(starts.size + 1)) return undefined;
    switch (part.kind) {
      case "start":
        return new Set(starts.has(0) ? [0] : []);
      case "end":
        return new Set(starts.has(codes.length) ? [codes.length] : []);
      case "set": {
        const taken = [...starts].filter((at) => at < codes.length && includes(part.ranges, codes[at] ?? -1));
        return new Set(taken.map((at) => at + 1));
      }
      case "sequence": {
        let now: ReadonlySet<number> | undefined = starts;
        for (const each of part.parts) now = now && ends(each, now);
        return now;
      }
      case "choice": {
        const all = new Set<number>();
        for (const option of part.options) {
          const found = ends(option, starts);
          if (found === undefined) return undefined;
          for (const at of found) all.add(at);
        }
        return all;
      }
      case "repeat":
        return repeated(part, starts);
    }
  };
  const repeated = (part: Extract<Expression, { kind: "repeat" }>, starts: ReadonlySet<number>) => {
    let now: ReadonlySet<number> | undefined = starts;
    for (let count = 0; count < part.min && now && now.size > 0; count += 1) now = ends(part.part, now);
    if (now === undefined) return undefined;
    const all = new Set(now);
    for (let count = part.min; now.size > 0 && count < (part.max ?? Number.POSITIVE_INFINITY); count += 1) {
      const next = ends(part.part, now);
      if (next === undefined) return undefined;
      // Positions found before have been followed already.
      now = new Set([...next].filter((at) => !all.has(at)));
      for (const at of now) all.add(at);
    }
    return all;
  };
  const found = ends(expression, new Set(Array.from({ length: codes.length + 1 }, (_, at) => at)));
  return found && found.size > 0;
}
