import type { BodyBudget, Evictable } from "../../overload/body-budget.ts";
import { ByteBudget } from "../../overload/byte-budget.ts";
import type { ConversationBefore } from "../../translation/translate.ts";

/** Uncounted bytes of an entry, and those of a boundary and of a call in it. */
const ENTRY_BYTES = 512;
const BOUNDARY_BYTES = 150;
const CALL_BYTES = 100;

/** What a frame continues: the messages of the conversation, encoded and digested, and the output behind them. */
export type Conversation = ConversationBefore & {
  /** JSON texts of the items of the last answer. */
  readonly output: readonly string[];
};

/** A conversation, until it is dropped. */
export type Kept = {
  readonly conversation: Conversation | undefined;
  drop(): void;
};

class Entry implements Kept {
  readonly tenant: string;
  readonly bytes: number;
  conversation: Conversation | undefined;
  readonly drop: () => void;

  constructor(tenant: string, conversation: Conversation, drop: (entry: Entry) => void) {
    this.tenant = tenant;
    this.conversation = conversation;
    this.bytes = keptBytes(conversation);
    this.drop = () => drop(this);
  }
}

/** Returns the bytes that a conversation takes in memory, those shared with another one included. */
export function keptBytes({ prompt, items, output }: Conversation): number {
  let bytes = ENTRY_BYTES + BOUNDARY_BYTES * prompt.shape.boundaries.length + CALL_BYTES * items.calls.size;
  for (const some of prompt.messages) bytes += some.bytes.byteLength;
  for (const { json } of items.tools) bytes += json.length;
  for (const text of output) bytes += text.length;
  return bytes;
}

/**
 * The conversations of all open WebSockets: a cache in the memory of bodies, to which it yields. An entry may be dropped
 * at any time, those used least recently first; its socket then asks for the whole conversation.
 */
export class KeptConversations extends ByteBudget implements Evictable {
  readonly #bodies: BodyBudget;
  /** Those used least recently first. */
  readonly #entries = new Set<Entry>();

  constructor(bodies: BodyBudget) {
    super(bodies.maxBytes);
    this.#bodies = bodies;
    bodies.yields(this);
  }

  keep(tenant: string, conversation: Conversation): Kept {
    const entry = new Entry(tenant, conversation, (dropped) => this.#remove(dropped));
    this.#entries.add(entry);
    this.take(tenant, entry.bytes);
    // A tenant drops its own entries first: others' conversations are not its to drop.
    for (const old of this.#entries) {
      if (this.lacks(tenant, 0) !== "tenant") break;
      if (old.tenant === tenant) this.#remove(old);
    }
    this.free(this.bytes - this.#bodies.free);
    return entry;
  }

  /** Returns the conversation of an entry, which counts as used; undefined if it was dropped. */
  use(kept: Kept): Conversation | undefined {
    if (kept instanceof Entry && this.#entries.delete(kept)) this.#entries.add(kept);
    return kept.conversation;
  }

  free(bytes: number): void {
    const least = this.bytes - bytes;
    for (const entry of this.#entries) {
      if (this.bytes <= least) return;
      this.#remove(entry);
    }
  }

  #remove(entry: Entry): void {
    if (!this.#entries.delete(entry)) return;
    entry.conversation = undefined;
    this.take(entry.tenant, -entry.bytes);
  }
}
