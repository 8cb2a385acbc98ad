import { OpenQuestions } from "../../deploy/runtime/process/open-questions.ts";
import type { Channel } from "../../deploy/runtime/process/process-channel.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { LimitReply, LimitRequest } from "./limit-message.ts";
import { placeShareOf, shareOf } from "./limit-share.ts";
import type { Charged, ChargeItem, LimitStore, Place, PlaceItem } from "./limit-store.ts";
import { MemoryLimitStore } from "./memory-limit-store.ts";

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
  readonly #questions: OpenQuestions<LimitReply>;
  /** The amounts that the host is yet to be told, by key and name of the count. */
  readonly #owed = new Map<string, Owed>();
  /**
   * The number of questions that waited too long. The channel loses nothing: the host is back when it has answered
   * them, too.
   */
  #overdue = 0;
  #saidAtMs: number | undefined;

  constructor(options: SharedLimitStoreOptions) {
    this.#options = options;
    this.#alone = new MemoryLimitStore(options.clock);
    this.#questions = new OpenQuestions(options.clock);
    options.channel.onMessage((reply) => this.#questions.answer(reply.id, reply));
  }

  /** Whether the host answers, so that the limits hold for all workers together. */
  get shared(): boolean {
    return this.#overdue === 0;
  }

  /**
   * Has the host take the costs of all items and all places, or nothing when one of them does not pass or no place is
   * free; where the host is silent, counts here alone.
   */
  async charge(keyId: string, items: readonly ChargeItem[], ...places: readonly PlaceItem[]): Promise<Charged> {
    const { channel } = this.#options;
    const settleUp = (own: Charged, late: Charged | undefined) => {
      late?.place?.release();
      const times = Number(own.ok) - Number(late?.ok ?? false);
      for (const { name, cost } of items) if (cost !== undefined) this.#tell(keyId, name, times * cost);
    };
    if (!this.shared || this.#questions.open >= MAX_UNANSWERED) {
      this.#saySilence();
      const own = await this.#chargeAlone(keyId, items, places);
      settleUp(own, undefined);
      return own;
    }
    let alone: Promise<Charged> | undefined;
    const reply = await this.#questions.ask(
      (id) => channel.send({ limits: "charge", id, keyId, items, places }),
      (late) => {
        void alone?.then((own) => settleUp(own, this.#chargedBy(late)));
        this.#overdue -= 1;
        if (this.shared) this.#tellOwed();
      },
    );
    if (reply) return this.#chargedBy(reply);
    this.#overdue += 1;
    this.#saySilence();
    alone = this.#chargeAlone(keyId, items, places);
    return alone;
  }

  /** Tells the host to take `amount` from a count that was charged before; a negative amount gives back. */
  settle(keyId: string, name: string, amount: number): void {
    if (!this.shared) this.#alone.settle(keyId, name, amount);
    this.#tell(keyId, name, amount);
  }

  /** Counts here, by this worker's share. */
  #chargeAlone(keyId: string, items: readonly ChargeItem[], places: readonly PlaceItem[]): Promise<Charged> {
    const { workers } = this.#options;
    const shares = items.map((item) => ({ ...item, rule: shareOf(item.rule, workers) }));
    return this.#alone.charge(keyId, shares, ...places.map((place) => placeShareOf(place, workers)));
  }

  #chargedBy({ id, charged, placed }: LimitReply): Charged {
    return placed ? { ...charged, place: this.#placeOf(id) } : charged;
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
