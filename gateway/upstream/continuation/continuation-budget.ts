import * as z from "zod";
import { ByteBudget } from "../../overload/byte-budget.ts";

export const continuationSchema = z
  .strictObject({
    maxBytes: z
      .int()
      .min(0)
      .optional()
      .describe(
        "Bytes kept for running answers so that another engine can continue them: their requests and 4 bytes a token; default: an eighth of the memory, at most 268435456. One owner has half of what the others leave. An answer that finds no room fails with its engine. 0 continues none.",
      ),
  })
  .prefault({})
  .describe(
    "How answers continue at another engine when theirs is lost, silent or drains: up to 16 times, unless two engines in a row are lost without a new token.",
  );

/** Why an answer is not kept: no capacity (for all, or its tenant), overload at its start, or released for memory. */
export type NotKept = "no_room" | "no_room_for_key" | "overload" | "released";

/** The default share of the process' memory for kept answers, and its bound in bytes. */
const MEMORY_SHARE = 0.125;
const MAX_BYTES = 268_435_456;

/** Returns the default size for kept answers, of a process with `memoryBytes`. */
export function continuationBytes(memoryBytes: number): number {
  return Math.floor(Math.min(MAX_BYTES, MEMORY_SHARE * memoryBytes));
}

export type ContinuationBudgetOptions = {
  readonly maxBytes: number;
  /** Returns whether the process is overloaded, so that no further answer is kept. Default: never. */
  readonly inTrouble?: () => boolean;
  /** Called whenever an answer finds no capacity among those of all tenants. Default: no call. */
  readonly onFull?: () => void;
};

type Held = {
  readonly tenant: string;
  bytes: number;
  /** Releases the answer. Returns false while another engine continues it. */
  readonly releaseUnused: () => boolean;
};

export type KeptAnswer = {
  /** Takes `bytes` more. Returns the reason where there is no capacity for them; undefined where they are taken. */
  grow(bytes: number): NotKept | undefined;
  release(): void;
};

/** Counts the memory of running answers kept so that another engine can continue them. */
export class ContinuationBudget extends ByteBudget {
  /** Whether any answer is kept. */
  readonly isOpen: boolean;
  readonly #options: ContinuationBudgetOptions;
  readonly #held = new Set<Held>();

  constructor(options: ContinuationBudgetOptions) {
    super(options.maxBytes);
    this.#options = options;
    this.isOpen = options.maxBytes > 0;
  }

  get answers(): number {
    return this.#held.size;
  }

  /** Takes capacity, or returns why there is none. `releaseUnused` must release it, or return false while in use. */
  keep(tenant: string, bytes: number, releaseUnused: () => boolean): KeptAnswer | NotKept {
    const lack = this.#options.inTrouble?.() ? "overload" : this.#lacks(tenant, bytes);
    if (lack) return lack;
    const held: Held = { tenant, bytes, releaseUnused };
    this.#held.add(held);
    this.take(tenant, bytes);
    return {
      grow: (more) => {
        const found = this.#lacks(tenant, more);
        if (found) return found;
        held.bytes += more;
        this.take(tenant, more);
        return undefined;
      },
      release: () => {
        if (this.#held.delete(held)) this.take(tenant, -held.bytes);
      },
    };
  }

  /** Releases the largest answers until `share` (0 to 1) of the bytes is free. Returns their number. */
  releaseShare(share: number): number {
    const enough = (1 - share) * this.bytes;
    let answers = 0;
    for (const { releaseUnused } of [...this.#held].sort((a, b) => b.bytes - a.bytes)) {
      if (this.bytes <= enough) break;
      if (releaseUnused()) answers += 1;
    }
    return answers;
  }

  #lacks(tenant: string, bytes: number): NotKept | undefined {
    const lack = this.lacks(tenant, bytes);
    if (lack === "all") this.#options.onFull?.();
    return lack && (lack === "all" ? "no_room" : "no_room_for_key");
  }
}
