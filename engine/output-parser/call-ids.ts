/** Gives the calls of one answer their ids: those that the model wrote, as long as they are of use. */
export class CallIds {
  readonly #newCallId: (toolName: string) => string;
  readonly #given: readonly string[];
  readonly #used = new Set<string>();
  #calls = 0;

  /** `given` are the ids of the first calls, in order, where the answer has given them out before. */
  constructor(newCallId: (toolName: string) => string, given: readonly string[]) {
    this.#newCallId = newCallId;
    this.#given = given;
  }

  /**
   * Returns the id of the next call. `written` is what the model wrote; it counts if it can stand in every format and
   * the answer has no other such id.
   */
  next(toolName: string, written: string | undefined): string {
    const isUsable = written !== undefined && /^[\w.:-]{1,128}$/.test(written) && !this.#used.has(written);
    const made = isUsable ? written : this.#newCallId(toolName);
    const id = this.#given[this.#calls++] || made;
    this.#used.add(id);
    return id;
  }
}
