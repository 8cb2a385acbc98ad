import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { type Event, GenerateResponse } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { shownCallId } from "../formats/completion.ts";
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

export type EventWriterOptions = {
  readonly target: MessageTarget;
  /** Id of the reply, from which unique ids of calls are derived. */
  readonly replyId: string;
  /** Clock of gaps and stalls. */
  readonly clock: Clock;
  /** Milliseconds for which the reader may take no bytes while some are waiting. */
  readonly writeStallMs: number;
  /** Called when the reader has taken no bytes for `writeStallMs`. */
  readonly onStall: () => void;
  /** Called at every write of deltas but the first, with the milliseconds since the previous one. */
  readonly onGap: (gapMs: number) => void;
  /** Called with true when the engine stream is paused for the reader, and with false when it resumes. */
  readonly onPaused: (paused: boolean) => void;
};

/**
 * Writes the events of one answer to a gRPC client as they arrive. It buffers no events: the engine stream of a slow
 * reader is paused. Events between nodes and gateways are omitted.
 */
export class EventWriter {
  readonly #options: EventWriterOptions;
  #started = false;
  #lastMs: number | undefined;
  #held: Flow | undefined;
  #cancelStall = () => {};

  constructor(options: EventWriterOptions) {
    this.#options = options;
    options.target.onDrain(() => this.#goOn()?.resume());
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
    if (commits) this.#measure();
    if (!kept) this.#hold(flow);
  }

  /** Resumes a paused engine stream, because the answer has ended. */
  end(): void {
    this.#goOn();
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

  #measure(): void {
    const nowMs = this.#options.clock.nowMs();
    if (this.#lastMs !== undefined) this.#options.onGap(nowMs - this.#lastMs);
    this.#lastMs = nowMs;
  }

  /** Pauses only the engine stream of this reader. */
  #hold(flow: Flow): void {
    if (this.#held === flow) return;
    flow.pause();
    const wasHeld = this.#held !== undefined;
    // Another engine may continue the answer while the reader is slow.
    this.#held = flow;
    if (wasHeld) return;
    const { clock, writeStallMs, onPaused, onStall } = this.#options;
    onPaused(true);
    this.#cancelStall = clock.after(writeStallMs, () => {
      this.#goOn();
      onStall();
    });
  }

  /** Returns the paused flow, if any, and clears it. */
  #goOn(): Flow | undefined {
    this.#cancelStall();
    const flow = this.#held;
    this.#held = undefined;
    if (flow) this.#options.onPaused(false);
    return flow;
  }
}
