import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { type Event, GenerateResponse } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { shownCallId } from "../formats/call-id.ts";
import type { Flow } from "../upstream/call/generate-call.ts";

/** Where the messages of an answer go. */
export type MessageTarget = {
  /** Sends a message; `commits` says whether it cannot be taken back. Returns false where the reader does not keep up. */
  write(message: Buffer, commits: boolean): boolean;
  /** Calls `listener` whenever the reader has caught up. */
  onDrain(listener: () => void): void;
};

/** What one stream of events is made of. */
export type EventWriterOptions = {
  /** The call that the messages go to. */
  readonly target: MessageTarget;
  /** The id of the reply, by which ids of calls are made that no other answer has. */
  readonly replyId: string;
  /** The clock by which gaps and stalls are measured. */
  readonly clock: Clock;
  /** The time for which the reader may take nothing while something waits for it, in milliseconds. */
  readonly writeStallMs: number;
  /** Called when the reader has taken nothing for `writeStallMs`. */
  readonly onStall: () => void;
  /** Called at every write of deltas but the first, with the milliseconds since the one before. */
  readonly onGap: (gapMs: number) => void;
  /** Called with true when the engine begins to wait for the reader, and with false when it waits no more. */
  readonly onPaused: (paused: boolean) => void;
};

/**
 * Writes the events of one answer to a gRPC client as they come. It keeps nothing: an engine whose events the reader does
 * not take is held, as that of any other slow reader is. What only nodes and gateways tell each other is left out.
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

  /** Takes the events of one message. It runs on the path of every delta. */
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

  /** Lets the engine go, as the answer is over. */
  end(): void {
    this.#goOn();
  }

  /** Returns an event as callers see it: none where it is none of theirs. */
  #shown(event: Event): readonly Event[] {
    const { kind } = event;
    if (kind?.$case === "started") {
      // That of a repeated try says nothing new.
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

  /** Makes the engine stream of a slow reader wait, and nobody else's. */
  #hold(flow: Flow): void {
    if (this.#held === flow) return;
    flow.pause();
    const wasHeld = this.#held !== undefined;
    // Another engine may go on with the answer while the reader is slow.
    this.#held = flow;
    if (wasHeld) return;
    const { clock, writeStallMs, onPaused, onStall } = this.#options;
    onPaused(true);
    this.#cancelStall = clock.after(writeStallMs, () => {
      this.#goOn();
      onStall();
    });
  }

  /** Returns the flow that was held, if one was, and holds it no more. */
  #goOn(): Flow | undefined {
    this.#cancelStall();
    const flow = this.#held;
    this.#held = undefined;
    if (flow) this.#options.onPaused(false);
    return flow;
  }
}
