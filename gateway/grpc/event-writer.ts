import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { type Event, GenerateResponse } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { shownCallId } from "../formats/completion.ts";
import { SlowReader, type SlowReaderOptions } from "../http/answer/slow-reader.ts";
import type { Flow } from "../upstream/call/generate-call.ts";

/** The call that receives the messages of an answer. */
export type MessageTarget = {
  /**
   * Sends a message; `commits` marks the answer as committed, so that no retry is possible. Returns false if the reader
   * is too slow.
   */
  write(message: Buffer, commits: boolean): boolean;
  /** Calls `listener` whenever the reader has caught up. */
  onDrain(listener: () => void): void;
};

export type EventWriterOptions = SlowReaderOptions & {
  readonly target: MessageTarget;
  /** Id of the reply, from which unique ids of calls are derived. */
  readonly replyId: string;
  readonly clock: Clock;
  /** Called at every write of deltas but the first, with the milliseconds since the previous one. */
  readonly onGap: (gapMs: number) => void;
};

/**
 * Writes the events of one answer to a gRPC client as they arrive. It buffers no events: the engine stream of a slow
 * reader is paused. Events between nodes and gateways are omitted.
 */
export class EventWriter {
  readonly #options: EventWriterOptions;
  #started = false;
  #lastMs: number | undefined;
  readonly #reader: SlowReader;

  constructor(options: EventWriterOptions) {
    this.#options = options;
    this.#reader = new SlowReader(options);
    options.target.onDrain(() => this.#reader.drained());
  }

  /** Writes the events of one message. It runs for every delta. */
  events(events: readonly Event[], flow: Flow): void {
    const shown = events.flatMap((event) => this.#shown(event));
    if (shown.length === 0) return;
    const commits = shown.some(({ kind }) => kind?.$case !== "started" && kind?.$case !== "progress");
    const message = GenerateResponse.encode({ events: shown, tokens: [] }).finish();
    const kept = this.#options.target.write(
      Buffer.from(message.buffer, message.byteOffset, message.byteLength),
      commits,
    );
    if (commits) {
      const nowMs = this.#options.clock.nowMs();
      if (this.#lastMs !== undefined) this.#options.onGap(nowMs - this.#lastMs);
      this.#lastMs = nowMs;
    }
    if (!kept) this.#reader.pause(flow);
  }

  /** The answer has ended. */
  end(): void {
    this.#reader.release();
  }

  /** Returns an event as callers see it; empty if it is not for callers. */
  #shown(event: Event): readonly Event[] {
    const { kind } = event;
    if (kind?.$case === "started") {
      // The `started` event of a retry adds no information.
      if (this.#started) return [];
      this.#started = true;
      return [{ kind: { $case: "started", value: { ...kind.value, nodeId: "" } } }];
    }
    if (kind?.$case !== "blockStarted" || kind.value.block?.$case !== "toolCall") return kind ? [event] : [];
    const { index, block } = kind.value;
    const callId = shownCallId("call_", block.value.callId, this.#options);
    const value = { index, block: { $case: "toolCall", value: { ...block.value, callId } } } as const;
    return [{ kind: { $case: "blockStarted", value } }];
  }
}
