import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";

type Position =
  | { readonly at: "start" }
  | { readonly at: "between_blocks"; readonly next: number }
  | { readonly at: "in_block"; readonly index: number }
  | { readonly at: "end" };

/** Checks the contract's order of events, for one call. */
export class EventOrder {
  #position: Position = { at: "start" };
  #deltaSeen = false;

  /** The open block from the first delta of the call on; -1 without. */
  get deltaBlock(): number {
    return this.#deltaSeen && this.#position.at === "in_block" ? this.#position.index : -1;
  }

  get finished(): boolean {
    return this.#position.at === "end";
  }

  /** Returns whether `event` is allowed now, and advances behind it. Events of unknown kinds are always allowed. */
  allows(event: Event): boolean {
    const kind = event.kind;
    const position = this.#position;
    switch (kind?.$case) {
      case undefined:
        return position.at !== "end";
      case "started":
        if (position.at !== "start") return false;
        this.#position = { at: "between_blocks", next: 0 };
        return true;
      case "progress":
        return position.at !== "end";
      case "blockStarted":
        if (position.at !== "between_blocks" || kind.value.index !== position.next || !kind.value.block) return false;
        this.#position = { at: "in_block", index: kind.value.index };
        return true;
      case "blockDelta":
        this.#deltaSeen = true;
        return position.at === "in_block" && kind.value.index === position.index && kind.value.text !== "";
      case "blockEnded":
        if (position.at !== "in_block" || kind.value.index !== position.index) return false;
        this.#position = { at: "between_blocks", next: position.index + 1 };
        return true;
      case "finished":
        if (position.at !== "between_blocks") return false;
        this.#position = { at: "end" };
        return true;
      default:
        kind satisfies never;
        return false;
    }
  }
}
