/** A token of a template. Text outside of tags is a token; comments and the white space that tags strip are none. */
export type Token = {
  /** `begin` is `{{` or `{%`, `end` is `}}` or `%}`; `eof` follows the last token. */
  readonly kind: "text" | "begin" | "end" | "name" | "number" | "string" | "operator" | "eof";
  readonly text: string;
  /** In UTF-16 units of the source. */
  readonly at: number;
};

const TAG = /\{([{%#])([-+]?)/g;
const RAW = /\s*raw\s*(?:-%\}\s*|%\})/y;
const END_OF_RAW = /\{%([-+]?)\s*endraw\s*(?:\+%\}|-%\}\s*|%\}\n?)/g;
const END_OF_COMMENT = /\+#\}|-#\}\s*|#\}\n?/g;
const END_OF_BLOCK = /\+%\}|-%\}\s*|%\}\n?/y;
const END_OF_OUTPUT = /-?\}\}/y;
const SPACE = /\s*/y;
/** A number behind a point is an index, as in `pairs.0.1`. */
const NUMBER = /(?<=\.)\d+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?/y;
const NAME = /[\p{L}_][\p{L}\p{N}_]*/uy;
const STRING = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/sy;
const OPERATOR = /\/\/|\*\*|[=!<>]=|[-+*/%~[\](){}<>=.:|,]/y;
const KINDS = [
  ["number", NUMBER],
  ["name", NAME],
  ["string", STRING],
  ["operator", OPERATOR],
] as const;

/**
 * Reads the tokens of a template with the settings of transformers: the newline behind a block and the white space in
 * front of it are no text, nor is the last newline. All newlines are those of Unix. Throws for a tag without an end.
 */
export function tokensOf(template: string): Tokens {
  const source = template.replaceAll(/\r\n?/g, "\n").replace(/\n$/, "");
  return new Tokens(source, new Lexer(source).read());
}

class Lexer {
  readonly #source: string;
  readonly #tokens: Token[] = [];
  #at = 0;
  #beginsLine = true;

  constructor(source: string) {
    this.#source = source;
  }

  read(): readonly Token[] {
    for (let tag = this.#find(TAG); tag; tag = this.#find(TAG)) {
      const [opened = "", kind = "", sign = ""] = tag;
      this.#text(tag.index, sign, kind !== "{");
      this.#at = tag.index + opened.length;
      if (kind === "#") this.#ended(this.#find(END_OF_COMMENT));
      else if (kind === "%" && this.#skip(RAW) !== undefined) this.#raw();
      else this.#tag(`{${kind}`);
    }
    this.#push("text", this.#source.slice(this.#at));
    this.#push("eof", "");
    return this.#tokens;
  }

  /** Adds the text up to a tag, without the white space that the tag strips. */
  #text(end: number, sign: string, isBlock: boolean): void {
    const text = this.#source.slice(this.#at, end);
    const line = text.lastIndexOf("\n") + 1;
    const indents = isBlock && sign === "" && (line > 0 || this.#beginsLine) && text.slice(line).trim() === "";
    this.#push("text", sign === "-" ? text.trimEnd() : indents ? text.slice(0, line) : text);
  }

  #raw(): void {
    const end = this.#find(END_OF_RAW);
    if (end) this.#text(end.index, end[1] ?? "", true);
    this.#ended(end);
  }

  #tag(begin: string): void {
    this.#push("begin", begin);
    const [end, mark] = begin === "{%" ? [END_OF_BLOCK, "%}"] : [END_OF_OUTPUT, "}}"];
    let depth = 0;
    for (;;) {
      this.#skip(SPACE);
      const ended = depth === 0 ? this.#skip(end) : undefined;
      if (ended !== undefined) {
        // An output strips behind itself only with its sign.
        const stripped = ended.startsWith("-") ? (this.#skip(SPACE) ?? "") : "";
        this.#beginsLine = `${ended}${stripped}`.endsWith("\n");
        this.#push("end", mark);
        return;
      }
      const text = this.#token();
      if (text === "(" || text === "[" || text === "{") depth += 1;
      else if (text === ")" || text === "]" || text === "}") depth -= 1;
    }
  }

  #token(): string {
    for (const [kind, pattern] of KINDS) {
      const text = this.#skip(pattern);
      if (text === undefined) continue;
      this.#push(kind, text);
      return text;
    }
    throw syntaxError(this.#source, this.#at, "unexpected character, or a tag without an end");
  }

  #ended(end: RegExpExecArray | null): void {
    if (!end) throw syntaxError(this.#source, this.#at, "a comment or raw text without an end");
    this.#at = end.index + end[0].length;
    this.#beginsLine = end[0].endsWith("\n");
  }

  #find(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#source);
  }

  /** Returns what the sticky pattern matches here, and goes behind it; undefined if it matches nothing here. */
  #skip(pattern: RegExp): string | undefined {
    const text = this.#find(pattern)?.[0];
    this.#at += text?.length ?? 0;
    return text;
  }

  #push(kind: Token["kind"], text: string): void {
    if (text !== "" || kind === "eof") this.#tokens.push({ kind, text, at: this.#at - text.length });
  }
}

function syntaxError(source: string, at: number, why: string): Error {
  return new Error(`line ${source.slice(0, at).split("\n").length} of the template: ${why}`);
}

/** The tokens of a template with a position among them. */
export class Tokens {
  readonly #source: string;
  readonly #all: readonly Token[];
  #next = 0;

  constructor(source: string, all: readonly Token[]) {
    this.#source = source;
    this.#all = all;
  }

  /** Returns the token `ahead` places from here; the last one is of the kind `eof`. */
  peek(ahead = 0): Token {
    const token = this.#all[Math.min(this.#next + ahead, this.#all.length - 1)];
    if (!token) throw new Error("a template without tokens");
    return token;
  }

  next(): Token {
    const token = this.peek();
    this.#next += 1;
    return token;
  }

  /** Returns whether the next token is one of these names or operators. */
  isAt(...texts: readonly string[]): boolean {
    const { kind, text } = this.peek();
    return (kind === "name" || kind === "operator") && texts.includes(text);
  }

  /** Goes behind the next token and returns its text if it is one of these names or operators. */
  skip(...texts: readonly string[]): string | undefined {
    return this.isAt(...texts) ? this.next().text : undefined;
  }

  /** Goes behind a name or operator. Throws if another token is next. */
  expect(text: string): void {
    if (this.skip(text) === undefined) throw this.unexpected(`${text} is expected`);
  }

  /** Goes behind the end of a tag. Throws if the tag goes on. */
  expectEnd(): void {
    if (this.peek().kind !== "end") throw this.unexpected("the end of the tag is expected");
    this.next();
  }

  name(): string {
    if (this.peek().kind !== "name") throw this.unexpected("a name is expected");
    return this.next().text;
  }

  /** Makes the error of a template that has another token here. */
  unexpected(why: string): Error {
    const { kind, text, at } = this.peek();
    return syntaxError(this.#source, at, `unexpected ${kind === "eof" ? "end" : text}: ${why}`);
  }
}
