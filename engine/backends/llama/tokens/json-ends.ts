/** The tokens of a model that end strings and brackets in JSON, found by their texts. */
export class JsonEnds<Token> {
  /** The tokens that contain a quotation mark. */
  readonly quotes: Set<Token> = new Set();
  /** Those of them that begin with it, and so end a string. */
  readonly ofStrings: Token[] = [];
  /** Those of them with nothing but closing brackets after the quotation mark. */
  readonly ofLastStrings: Token[] = [];
  /** The tokens of closing brackets. */
  readonly brackets: Token[] = [];

  add(token: Token, text: string): void {
    if (text.includes('"')) this.quotes.add(token);
    if (text.startsWith('"')) this.ofStrings.push(token);
    if (/^"[\]}]*$/.test(text)) this.ofLastStrings.push(token);
    if (/^[\]}]+$/.test(text)) this.brackets.push(token);
  }
}
