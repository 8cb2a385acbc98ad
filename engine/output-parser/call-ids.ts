/** Gives the calls of one answer their ids: those that the model wrote, as long as they are of use. */
export class CallIds {
  readonly #newCallId: (toolName: string) => string;
  readonly #used = new Set<string>();

  constructor(newCallId: (toolName: string) => string) {
    this.#newCallId = newCallId;
  }

  /**
   * Returns the id of the next call. `written` is what the model wrote; it counts if it can stand in every format and
   * the answer has no other such id.
   */
  next(toolName: string, written: string | undefined): string {
    const isUsable = written !== undefined && /^[\w.:-]{1,128}$/.test(written) && !this.#used.has(written);
    const id = isUsable ? written : this.#newCallId(toolName);
    this.#used.add(id);
    return id;
  }
}
