import type { ServerResponse } from "node:http";
import type { Writable } from "node:stream";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ApiError } from "../../errors.ts";
import type { StreamEncoder } from "../../formats/format.ts";
import type { Flow } from "../../upstream/call/generate-call.ts";
import type { Flushable, FlushQueue } from "./flush-queue.ts";

/** What one event stream is made of. */
export type SseStreamOptions = {
  /** The response that the stream is written to. */
  readonly response: ServerResponse;
  /** Makes the frames of the format out of canonical events. */
  readonly encoder: StreamEncoder;
  /** The headers that are sent with the status line. */
  readonly headers: Readonly<Record<string, string>>;
  /** Gathers the writes of all streams in a turn of the event loop. */
  readonly queue: FlushQueue;
  /** The clock by which silences and stalls are measured. */
  readonly clock: Clock;
  /** The silence after which a sign of life is sent, in milliseconds. */
  readonly keepAliveIntervalMs: number;
  /**
   * The silence after which the very first sign of life is sent, with which the status line goes out, in milliseconds;
   * it counts only where it is shorter than `keepAliveIntervalMs`.
   */
  readonly headerCommitMs: number;
  /** The time for which the reader may take nothing while something waits for it, in milliseconds. */
  readonly writeStallMs: number;
  /** Called when the reader has taken nothing for `writeStallMs`; the stream is dead then. */
  readonly onStall: () => void;
  /**
   * Called at every write of events but the first, with the milliseconds since the one before. It runs on the path of
   * every delta.
   */
  readonly onGap: (gapMs: number) => void;
  /** Called with true when the engine begins to wait for the reader, and with false when it waits no more. */
  readonly onPaused: (paused: boolean) => void;
};

/**
 * Writes one event stream to one client: canonical events in, frames out. The status line goes out with the first event
 * that cannot be taken back, or with the first sign of life; until then the request may still fail with a status of its
 * own.
 */
export class SseStream implements Flushable {
  readonly #options: SseStreamOptions;
  /** The frames that are not written yet. */
  #pending = "";
  #queued = false;
  #committed = false;
  /** Whether chunks are framed here, and not by Node. */
  #framing = false;
  #ended = false;
  #flow: Flow | undefined;
  #paused: Flow | undefined;
  #lastWriteMs: number;
  #lastEventsMs: number | undefined;
  #cancelKeepAlive: () => void;
  #stopWaiting: (() => void) | undefined;

  constructor(options: SseStreamOptions) {
    this.#options = options;
    this.#lastWriteMs = options.clock.nowMs();
    this.#cancelKeepAlive = options.clock.after(this.#silenceMs(), () => this.#keepAlive());
    options.response.on("close", () => this.#release());
  }

  /** Whether the status line has been sent or is about to be. */
  get committed(): boolean {
    return this.#committed;
  }

  /** Takes the events of one message. */
  events(events: readonly Event[], flow: Flow): void {
    if (this.#ended) return;
    for (const event of events) {
      this.#pending += this.#options.encoder.next(event);
      const kind = event.kind?.$case;
      if (kind !== "started" && kind !== "progress") this.#committed = true;
    }
    this.#gathered(flow);
  }

  /** Takes deltas of the open block by their texts, behind others. It runs on the path of nearly every delta. */
  deltas(texts: readonly string[], flow: Flow): void {
    if (this.#ended) return;
    for (const text of texts) this.#pending += this.#options.encoder.text(text);
    this.#gathered(flow);
  }

  /** Writes what has gathered in this turn of the event loop, in one piece. */
  flush(): void {
    this.#queued = false;
    if (this.#ended || this.#pending === "") return;
    if (!this.#write() && this.#flow) this.#hold(this.#flow);
    // The write has read the clock already.
    if (this.#lastEventsMs !== undefined) this.#options.onGap(this.#lastWriteMs - this.#lastEventsMs);
    this.#lastEventsMs = this.#lastWriteMs;
  }

  /** Ends the stream of an answer that is complete: the encoder has written its last frame. */
  end(): void {
    this.#finish("");
  }

  /** Ends a committed stream with the format's error frame. */
  fail(error: ApiError): void {
    this.#finish(this.#options.encoder.fail(error));
  }

  /**
   * Ends a committed stream by cutting its connection, behind what was written so far: the client is missing the last
   * chunk, and repeats the request as for any lost connection. One that is sent no chunks, or was told that its
   * connection closes, could take the cut for a proper end, and gets the format's error frame as from `fail`.
   */
  cut(error: ApiError): void {
    if (this.#ended) return;
    this.#write();
    const { response, encoder } = this.#options;
    const frame = encoder.fail(error);
    const { socket } = response;
    // Behind its last frame there is no frame for a failure: nothing of the stream is missing.
    if (frame === "" || !socket || !this.#showsCut()) {
      this.#finish(frame);
      return;
    }
    this.#ended = true;
    this.#cancelKeepAlive();
    socket.destroySoon();
  }

  /** Stops the stream before `committed`, as the request is answered in another way; nothing is written any more. */
  abandon(): void {
    this.#release();
  }

  /**
   * Returns whether the client can tell a cut from a proper end. The fetch of Node 20 does not miss the last chunk where
   * the reply has said `connection: close`.
   */
  #showsCut(): boolean {
    const { response, headers } = this.#options;
    const connection = response.getHeader("connection") ?? headers.connection;
    return this.#framing && response.shouldKeepAlive && connection !== "close";
  }

  #gathered(flow: Flow): void {
    if (this.#committed && !this.#queued) {
      this.#queued = true;
      // Nobody waits for a first delta longer than need be.
      this.#options.queue.add(this, !this.#options.response.headersSent);
    }
    this.#flow = flow;
    if (this.#writable().writableNeedDrain) this.#hold(flow);
  }

  #finish(last: string): void {
    if (this.#ended) return;
    this.#pending += last;
    this.#write();
    this.#ended = true;
    // The last chunk is Node's again.
    if (this.#framing) this.#options.response.chunkedEncoding = true;
    this.#options.response.end();
    this.#cancelKeepAlive();
  }

  #write(): boolean {
    const { response, clock } = this.#options;
    if (response.destroyed) return true;
    const { socket, headersSent } = response;
    if (!headersSent) {
      // The head goes with the first chunk.
      socket?.cork();
      this.#writeHead();
    }
    this.#committed = true;
    this.#lastWriteMs = clock.nowMs();
    const text = this.#pending;
    this.#pending = "";
    const kept = text === "" || this.#send(text);
    if (!headersSent) socket?.uncork();
    return kept;
  }

  /**
   * Writes the head, after which chunks are framed here. Node must have none of its own by then: it gathers those of a
   * turn, and Node 26 expects that it frames them. Not every reader is sent chunks: HTTP/1.0 has none.
   */
  #writeHead(): void {
    const { response, headers } = this.#options;
    response.writeHead(200, headers);
    response.flushHeaders();
    this.#framing = response.chunkedEncoding;
    response.chunkedEncoding = false;
  }

  /**
   * Writes a chunk as one text. Node makes four writes of a chunk, one of them the text; as one text it costs a tenth
   * less of the whole way.
   */
  #send(text: string): boolean {
    const writable = this.#writable();
    if (!this.#framing) return writable.write(text);
    const bytes = Buffer.byteLength(text);
    // Plain ASCII: then a byte is a character, which is written at less cost than UTF-8.
    const encoding = bytes === text.length ? "latin1" : "utf8";
    return writable.write(`${bytes.toString(16)}\r\n${text}\r\n`, encoding);
  }

  /**
   * Returns what chunks are written to. Once the head is out, those that are framed here go right to the connection: the
   * response would hold each until the end of the turn, which a flush is already. Of two requests on one connection the
   * second one has it only when the first is answered.
   */
  #writable(): Writable {
    const { response } = this.#options;
    return (this.#framing && response.socket) || response;
  }

  /** Makes the engine stream of a slow reader wait, and nobody else's. */
  #hold(flow: Flow): void {
    if (this.#paused === flow) return;
    flow.pause();
    const wasPaused = this.#paused !== undefined;
    // Another engine may go on with the answer while the reader is slow.
    this.#paused = flow;
    if (wasPaused) return;
    this.#options.onPaused(true);
    const writable = this.#writable();
    const drained = () => this.#unpause()?.resume();
    writable.once("drain", drained);
    const cancelStall = this.#options.clock.after(this.#options.writeStallMs, () => {
      this.#unpause();
      this.#options.onStall();
      this.#options.response.destroy();
    });
    this.#stopWaiting = () => {
      writable.off("drain", drained);
      cancelStall();
    };
  }

  /** Returns the flow that was held, if one was, and holds it no more. */
  #unpause(): Flow | undefined {
    const flow = this.#paused;
    if (!flow) return undefined;
    this.#stopWaiting?.();
    this.#paused = undefined;
    this.#options.onPaused(false);
    return flow;
  }

  #keepAlive(): void {
    if (this.#ended) return;
    const { clock, encoder, keepAliveIntervalMs } = this.#options;
    if (clock.nowMs() - this.#lastWriteMs >= this.#silenceMs() && !this.#paused) {
      this.#pending += encoder.keepAlive();
      this.#write();
    }
    const next = Math.max(1, this.#silenceMs() - (clock.nowMs() - this.#lastWriteMs));
    this.#cancelKeepAlive = clock.after(this.#paused ? keepAliveIntervalMs : next, () => this.#keepAlive());
  }

  /**
   * Returns how long the client may hear nothing, in milliseconds. Clients and proxies wait less long for a status line
   * than for more of a body.
   */
  #silenceMs(): number {
    const { keepAliveIntervalMs, headerCommitMs } = this.#options;
    return this.#committed ? keepAliveIntervalMs : Math.min(keepAliveIntervalMs, headerCommitMs);
  }

  #release(): void {
    this.#ended = true;
    this.#cancelKeepAlive();
    this.#unpause();
  }
}
