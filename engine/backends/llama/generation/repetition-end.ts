import type { JsonScanner } from "../../../tool-calls/readers/json-scanner.ts";
import type { JsonEnds } from "../tokens/json-ends.ts";
import { repeatedTokens } from "../tokens/repetition.ts";

/**
 * Finds where a model writes the same over and over in JSON, and tells the tokens with which that ends. Of a string this
 * is the quotation mark. Of items and of members it is the bracket around them, before which all ends that they hold. The
 * tokens so far decide and nothing else does, so that another node that goes on with an answer ends the same.
 */
export class RepetitionEnd<Token> {
  readonly #ends: JsonEnds<Token>;
  #json: JsonScanner | undefined;
  /** The tokens in the JSON, and how many brackets were open behind each. */
  #tokens: Token[] = [];
  #depths: number[] = [];
  /** The number of brackets that are open where the items or members come that are to end; 0 where none are. */
  #ending = 0;
  #due: readonly Token[] = [];

  constructor(ends: JsonEnds<Token>) {
    this.#ends = ends;
  }

  /** The tokens of which one is to come next; none where the model may go on. */
  get due(): readonly Token[] {
    return this.#due;
  }

  /** Takes note of the next token of the answer, which ended in `json`; undefined where that is over, or none was. */
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
    // What came behind the same tokens before comes now: a string is not cut in its middle.
    const [next] = repeated;
    return json.isInString && next !== undefined && quotes.has(next) ? ofLastStrings : [];
  }
}
