import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";

/** Checks the contract's order of events, for one call. */
export class EventOrder {
  /** The open block from the first delta of the call on; -1 without. Changed by this class only. */
  deltaBlock = -1;
  finished = false;
  #begun = false;
  #deltaSeen = false;
  /** The open block; -1 between blocks. */
  #open = -1;
  #next = 0;

  /** Returns whether `event` is allowed now, and advances behind it. Events of unknown kinds are always allowed. */
  allows({ kind }: Event): boolean {
    if (this.finished) return false;
    switch (kind?.$case) {
      case undefined:
      case "progress":
        return true;
      case "started":
        if (this.#begun) return false;
        this.#begun = true;
        return true;
      case "blockStarted":
        if (!this.#begun || this.#open >= 0 || kind.value.index !== this.#next || !kind.value.block) return false;
        this.#open = this.#next;
        if (this.#deltaSeen) this.deltaBlock = this.#open;
        return true;
      case "blockDelta":
        if (this.#open < 0 || kind.value.index !== this.#open || kind.value.text === "") return false;
        this.#deltaSeen = true;
        this.deltaBlock = this.#open;
        return true;
      case "blockEnded":
        if (this.#open < 0 || kind.value.index !== this.#open) return false;
        this.#next = this.#open + 1;
        this.#open = -1;
        this.deltaBlock = -1;
        return true;
      case "finished":
        if (!this.#begun || this.#open >= 0) return false;
        this.finished = true;
        return true;
      default:
        kind satisfies never;
        return false;
    }
  }
}
