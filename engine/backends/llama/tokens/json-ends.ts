/** The tokens that end what stands in JSON, by the texts of the tokens of a model. */
export class JsonEnds<Token> {
  /** The tokens with a quotation mark in them. */
  readonly quotes: Set<Token> = new Set();
  /** Those of them that begin with it, so that they end a string. */
  readonly ofStrings: Token[] = [];
  /** Those of them behind whose mark nothing comes but brackets that close. */
  readonly ofLastStrings: Token[] = [];
  /** The tokens of brackets that close. */
  readonly brackets: Token[] = [];

  /** Takes in a token of the model. */
  add(token: Token, text: string): void {
    if (text.includes('"')) this.quotes.add(token);
    if (text.startsWith('"')) this.ofStrings.push(token);
    if (/^"[\]}]*$/.test(text)) this.ofLastStrings.push(token);
    if (/^[\]}]+$/.test(text)) this.brackets.push(token);
  }
}
