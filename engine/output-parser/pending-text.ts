export class PendingText {
  #text = "";
  #received = 0;

  get text(): string {
    return this.#text;
  }

  get received(): number {
    return this.#received;
  }

  get offset(): number {
    return this.#received - this.#text.length;
  }

  receive(text: string): void {
    this.#received += text.length;
    this.#text += text;
  }

  take(length: number): string {
    const taken = this.#text.slice(0, length);
    this.#text = this.#text.slice(length);
    return taken;
  }

  takeAll(): string {
    return this.take(this.#text.length);
  }

  putBack(text: string): void {
    this.#text = text + this.#text;
  }
}
