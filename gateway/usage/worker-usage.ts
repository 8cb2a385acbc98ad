import { OpenQuestions } from "../../deploy/runtime/process/open-questions.ts";
import type { Channel } from "../../deploy/runtime/process/process-channel.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { StoredUsage, UsageBatch, UsageStore } from "./usage-store.ts";

/** The field by which messages about usage are told from others on the same process channel. */
export const USAGE_TOPIC = "usage";

/** What a gateway worker says to the process that keeps the usage of all. The worker uses each `id` once. */
export type UsageRequest =
  | { readonly usage: "add"; readonly batch: UsageBatch }
  | { readonly usage: "read"; readonly id: number; readonly keyId: string };

/** What the process that keeps usage answers to `read`. */
export type UsageReply = { readonly usage: "found"; readonly id: number; readonly found: StoredUsage | undefined };

/** Answers the gateway worker at the other end of `channel` from `store`. */
export function answerUsage(store: UsageStore, channel: Channel<UsageReply, UsageRequest>): void {
  channel.onMessage((request) => {
    if (request.usage === "add") void store.add(request.batch);
    else void store.read(request.keyId).then((found) => channel.send({ usage: "found", id: request.id, found }));
  });
}

/** The usage of keys as one gateway worker sees it: the process that started it keeps it for all. */
export class WorkerUsage implements UsageStore {
  readonly #channel: Channel<UsageRequest, UsageReply>;
  readonly #questions: OpenQuestions<StoredUsage | undefined>;

  /** Makes the store at the worker's end of `channel`; `clock` times the other end's answers. */
  constructor(channel: Channel<UsageRequest, UsageReply>, clock: Pick<Clock, "after">) {
    this.#channel = channel;
    this.#questions = new OpenQuestions(clock);
    channel.onMessage(({ id, found }) => this.#questions.answer(id, found));
  }

  /** Passes a batch on and resolves to true: the channel loses nothing while both ends live. */
  async add(batch: UsageBatch): Promise<boolean> {
    this.#channel.send({ usage: "add", batch });
    return true;
  }

  /** Resolves to what all workers have told of a key; undefined where there is no answer within a second. */
  read(keyId: string): Promise<StoredUsage | undefined> {
    return this.#questions.ask((id) => this.#channel.send({ usage: "read", id, keyId }));
  }
}
