export class CallIds {
  readonly #newCallId: (toolName: string) => string;
  readonly #given: readonly string[];
  readonly #used = new Set<string>();
  #calls = 0;

  /** `given` are the ids already sent for the first calls, in order. */
  constructor(newCallId: (toolName: string) => string, given: readonly string[]) {
    this.#newCallId = newCallId;
    this.#given = given;
  }

  /** `written`, the model's id, is used if it is valid in every API format and unique in the answer. */
  next(toolName: string, written: string | undefined): string {
    const isUsable = written !== undefined && /^[\w.:-]{1,128}$/.test(written) && !this.#used.has(written);
    const made = isUsable ? written : this.#newCallId(toolName);
    const id = this.#given[this.#calls++] || made;
    this.#used.add(id);
    return id;
  }
}
