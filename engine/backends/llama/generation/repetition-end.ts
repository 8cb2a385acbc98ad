import type { JsonScanner } from "../../../tool-calls/readers/json-scanner.ts";
import type { JsonEnds } from "../tokens/json-ends.ts";
import { repeatedTokens } from "../tokens/repetition.ts";

/**
 * Detects endless repetition in JSON, and returns the tokens that end it: for a string the quotation mark, for items
 * and members the closing bracket around them, after all that they contain is closed. The decision depends on the
 * tokens so far alone, so that a node that continues the answer decides the same.
 */
export class RepetitionEnd<Token> {
  readonly #ends: JsonEnds<Token>;
  #json: JsonScanner | undefined;
  /** The tokens of the JSON value, and the number of open brackets after each. */
  #tokens: Token[] = [];
  #depths: number[] = [];
  /** The depth of the brackets around the items or members to end; 0 for none. */
  #ending = 0;
  #due: readonly Token[] = [];

  constructor(ends: JsonEnds<Token>) {
    this.#ends = ends;
  }

  /** The tokens of which one must come next; empty if the model is free. */
  get due(): readonly Token[] {
    return this.#due;
  }

  /** Adds the next token of the answer, which is now in `json`; undefined outside JSON. */
  take(token: Token, json: JsonScanner | undefined): void {
    if (json !== this.#json) {
      this.#json = json;
      this.#tokens = [];
      this.#depths = [];
      this.#ending = 0;
    }
    if (json === undefined) {
      this.#due = [];
      return;
    }
    this.#tokens.push(token);
    this.#depths.push(json.depth);
    this.#due = this.#dueIn(json);
  }

  #dueIn(json: JsonScanner): readonly Token[] {
    const { quotes, ofStrings, ofLastStrings, brackets } = this.#ends;
    const repeated = repeatedTokens(this.#tokens);
    if (json.depth < this.#ending) this.#ending = 0;
    const isOneString = json.isInString && !repeated.some((token) => quotes.has(token));
    if (repeated.length > 0 && isOneString) return this.#ending === 0 ? ofStrings : ofLastStrings;
    if (repeated.length > 0) this.#ending ||= Math.min(...this.#depths.slice(-repeated.length));
    if (this.#ending === 0) return [];
    if (json.isBeforeBracket) return brackets;
    // The tokens repeat, so that the repeated token comes next: a string is not cut in its middle.
    const [next] = repeated;
    return json.isInString && next !== undefined && quotes.has(next) ? ofLastStrings : [];
  }
}
