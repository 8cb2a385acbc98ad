/** Holds the text of an output that was not decided yet. */
export class PendingText {
  #text = "";
  #received = 0;

  /** The text that is not decided yet. */
  get text(): string {
    return this.#text;
  }

  /** The UTF-16 units received so far, where the pending text ends. */
  get received(): number {
    return this.#received;
  }

  /** The place in the output where the pending text begins, in UTF-16 units. */
  get offset(): number {
    return this.#received - this.#text.length;
  }

  /** Adds the next piece of the output. */
  receive(text: string): void {
    this.#received += text.length;
    this.#text += text;
  }

  /** Removes `length` UTF-16 units from the front and returns them. */
  take(length: number): string {
    const taken = this.#text.slice(0, length);
    this.#text = this.#text.slice(length);
    return taken;
  }

  /** Removes all of the pending text and returns it. */
  takeAll(): string {
    return this.take(this.#text.length);
  }

  /** Puts back what was taken last. */
  putBack(text: string): void {
    this.#text = text + this.#text;
  }
}
