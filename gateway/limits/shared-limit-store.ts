import type { Channel } from "../../deploy/runtime/process/process-channel.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { LimitReply, LimitRequest } from "./limit-message.ts";
import { placeShareOf, shareOf } from "./limit-share.ts";
import type { Charged, ChargeItem, LimitStore, Place, PlaceItem } from "./limit-store.ts";
import { MemoryLimitStore } from "./memory-limit-store.ts";

/**
 * The time, in milliseconds, after which a host without an answer counts as silent. On the same machine it answers in a
 * fraction of a millisecond: one that takes so long is stuck.
 */
const ANSWER_MS = 1_000;
/** The most requests that may wait for the host at one time; more are counted here alone. */
const MAX_UNANSWERED = 10_000;
const SAY_EVERY_MS = 60_000;

/** What a shared limit store works with. */
export type SharedLimitStoreOptions = {
  /** The channel to the host that keeps the counts. */
  readonly channel: Channel<LimitRequest, LimitReply>;
  /** The clock that times the host's answers. */
  readonly clock: Clock;
  /** The number of gateway workers. Without the host, each goes by an equal share of every limit. */
  readonly workers: number;
  /** Called when the host does not answer, at most once a minute. */
  readonly onSilence: () => void;
};

type Answer = (reply: LimitReply) => void;

/** An amount that the host is yet to be told. */
type Owed = { readonly keyId: string; readonly name: string; readonly amount: number };

/**
 * Leaves the counts of several gateway workers to a host. While the host leaves a question unanswered for longer than a
 * second, the worker counts by itself, by an equal share of each limit, and tells the host afterwards what was used
 * meanwhile. Places that it gives in that time are its own.
 */
export class SharedLimitStore implements LimitStore {
  readonly #options: SharedLimitStoreOptions;
  readonly #alone: MemoryLimitStore;
  readonly #unanswered = new Map<number, Answer>();
  /** The amounts that the host is yet to be told, by key and name of the count. */
  readonly #owed = new Map<string, Owed>();
  #lastId = 0;
  /**
   * The number of questions that waited too long. The channel loses nothing: the host is back when it has answered
   * them, too.
   */
  #overdue = 0;
  #saidAtMs: number | undefined;

  constructor(options: SharedLimitStoreOptions) {
    this.#options = options;
    this.#alone = new MemoryLimitStore(options.clock);
    options.channel.onMessage((reply) => {
      const answer = this.#unanswered.get(reply.id);
      this.#unanswered.delete(reply.id);
      answer?.(reply);
    });
  }

  /** Whether the host answers, so that the limits hold for all workers together. */
  get shared(): boolean {
    return this.#overdue === 0;
  }

  /**
   * Has the host take the costs of all items and a place, or nothing when one of them does not pass or no place is free;
   * where the host is silent, counts here alone.
   */
  charge(keyId: string, items: readonly ChargeItem[], place?: PlaceItem): Promise<Charged> {
    return this.#ask(
      (id) => ({ limits: "charge", id, keyId, items, ...(place && { place }) }),
      ({ id, charged, placed }) => (placed ? { ...charged, place: this.#placeOf(id) } : charged),
      () => {
        const shares = items.map((item) => ({ ...item, rule: shareOf(item.rule, this.#options.workers) }));
        return this.#alone.charge(keyId, shares, place && placeShareOf(place, this.#options.workers));
      },
      (own, late) => {
        late?.place?.release();
        const times = Number(own.ok) - Number(late?.ok ?? false);
        for (const { name, cost } of items) if (cost !== undefined) this.#tell(keyId, name, times * cost);
      },
    );
  }

  /** Tells the host to take `amount` from a count that was charged before; a negative amount gives back. */
  settle(keyId: string, name: string, amount: number): void {
    if (!this.shared) this.#alone.settle(keyId, name, amount);
    this.#tell(keyId, name, amount);
  }

  /**
   * Asks the host, or counts `alone` where it is silent. `settleUp` then gets the worker's own result and the host's
   * late answer, which is undefined when the host was not asked.
   */
  #ask(
    request: (id: number) => LimitRequest,
    read: (reply: LimitReply) => Charged,
    alone: () => Promise<Charged>,
    settleUp: (own: Charged, late: Charged | undefined) => void,
  ): Promise<Charged> {
    const { channel, clock } = this.#options;
    if (!this.shared || this.#unanswered.size >= MAX_UNANSWERED) {
      this.#saySilence();
      return alone().then((own) => {
        settleUp(own, undefined);
        return own;
      });
    }
    return new Promise((resolve) => {
      this.#lastId += 1;
      const id = this.#lastId;
      const cancel = clock.after(ANSWER_MS, () => {
        this.#overdue += 1;
        this.#saySilence();
        const own = alone();
        resolve(own);
        this.#unanswered.set(id, (reply) => {
          void own.then((value) => settleUp(value, read(reply)));
          this.#overdue -= 1;
          if (this.shared) this.#tellOwed();
        });
      });
      this.#unanswered.set(id, (reply) => {
        cancel();
        resolve(read(reply));
      });
      channel.send(request(id));
    });
  }

  #placeOf(id: number): Place {
    let held = true;
    return {
      release: () => {
        if (held) this.#options.channel.send({ limits: "release", id });
        held = false;
      },
    };
  }

  /**
   * Tells the host an amount. While the host is silent, amounts are kept back as one sum a count, as a queue of
   * messages would grow without end.
   */
  #tell(keyId: string, name: string, amount: number): void {
    if (amount === 0) return;
    const place = `${keyId} ${name}`;
    if (this.shared) this.#options.channel.send({ limits: "settle", keyId, name, amount });
    else this.#owed.set(place, { keyId, name, amount: amount + (this.#owed.get(place)?.amount ?? 0) });
  }

  #tellOwed(): void {
    const owed = [...this.#owed.values()];
    this.#owed.clear();
    for (const { keyId, name, amount } of owed) this.#tell(keyId, name, amount);
  }

  #saySilence(): void {
    const nowMs = this.#options.clock.nowMs();
    if (this.#saidAtMs !== undefined && nowMs - this.#saidAtMs < SAY_EVERY_MS) return;
    this.#saidAtMs = nowMs;
    this.#options.onSilence();
  }
}
