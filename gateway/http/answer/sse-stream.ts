import type { Socket } from "node:net";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ApiError } from "../../errors.ts";
import type { StreamEncoder } from "../../formats/format.ts";
import type { Deltas } from "../../upstream/call/delta-reader.ts";
import type { Flow } from "../../upstream/call/retry-boundary.ts";
import { SlowReader, type SlowReaderOptions } from "./slow-reader.ts";

type Sink = {
  readonly writableNeedDrain: boolean;
  write(text: string, encoding: "latin1" | "utf8"): boolean;
  once(event: "drain", listener: () => void): unknown;
};

/** What a stream is written to: Node's reply, or the turn of a WebSocket, which takes the frames apart. */
export type StreamTarget = Sink & {
  readonly destroyed: boolean;
  readonly headersSent: boolean;
  /** Null where chunks are never framed here. */
  readonly socket: Socket | null;
  readonly shouldKeepAlive: boolean;
  chunkedEncoding: boolean;
  getHeader(name: string): number | string | readonly string[] | undefined;
  writeHead(status: number, headers: Readonly<Record<string, string>>): unknown;
  flushHeaders(): void;
  on(event: "close", listener: () => void): unknown;
  end(): unknown;
  destroy(): unknown;
};

export type SseStreamOptions = SlowReaderOptions & {
  readonly response: StreamTarget;
  readonly encoder: StreamEncoder;
  /** Sent with the status line. */
  readonly headers: Readonly<Record<string, string>>;
  readonly clock: Clock;
  /** Silence before a keep-alive frame, in milliseconds. */
  readonly keepAliveIntervalMs: number;
  /** Milliseconds of silence before the first keep-alive frame, which commits the head, if shorter than the above. */
  readonly headerCommitMs: number;
  /** Called at every write of events but the first, with the milliseconds since the one before. */
  readonly onGap: (gapMs: number) => void;
};

/**
 * Writes one event stream to one client: canonical events in, frames out. The status line is sent with the first event
 * that commits the answer, or with the first keep-alive; until then the request may still fail with a status of its
 * own.
 */
export class SseStream {
  readonly #options: SseStreamOptions;
  /** Unwritten frames. */
  #pending = "";
  #queued = false;
  /** Whether the status line has been sent or is about to be. */
  committed = false;
  /** Whether this class frames chunks instead of Node. */
  #framing = false;
  #ended = false;
  #flow: Flow | undefined;
  #lastWriteMs: number;
  #lastEventsMs: number | undefined;
  #cancelKeepAlive: () => void;
  /** Undefined while the reader has never been slow. */
  #reader: SlowReader | undefined;

  constructor(options: SseStreamOptions) {
    this.#options = options;
    this.#lastWriteMs = options.clock.nowMs();
    this.#cancelKeepAlive = options.clock.after(this.#silenceMs(), () => this.#keepAlive());
    options.response.on("close", () => this.abandon());
  }

  events(events: readonly Event[], flow: Flow): void {
    if (this.#ended) return;
    for (const event of events) {
      this.#pending += this.#options.encoder.next(event);
      const kind = event.kind?.$case;
      if (kind !== "started" && kind !== "progress") this.committed = true;
    }
    this.#gathered(flow);
  }

  /** Writes deltas of the open block, after earlier ones. It runs for nearly every delta. */
  deltas({ texts }: Deltas, flow: Flow): void {
    if (this.#ended) return;
    for (const text of texts) this.#pending += this.#options.encoder.text(text);
    this.#gathered(flow);
  }

  /**
   * Writes the collected frames, once a tick of the event loop: one read from an engine's connection often brings several
   * deltas of a stream.
   */
  readonly #flush = (): void => {
    this.#queued = false;
    if (this.#ended || this.#pending === "") return;
    if (!this.#write() && this.#flow) this.#pause(this.#flow);
    // The write has read the clock already.
    if (this.#lastEventsMs !== undefined) this.#options.onGap(this.#lastWriteMs - this.#lastEventsMs);
    this.#lastEventsMs = this.#lastWriteMs;
  };

  /** Ends a committed stream with the format's error frame. */
  fail(error: ApiError): void {
    this.end(this.#options.encoder.fail(error));
  }

  /**
   * Ends a committed stream by closing its connection after the bytes written so far: the client does not receive the
   * last chunk, and retries as after any lost connection. A client that receives no chunks, or whose response says
   * `connection: close`, could take this for a proper end, and gets the format's error frame as from `fail`.
   */
  cut(error: ApiError): void {
    if (this.#ended) return;
    this.#write();
    const { response, encoder } = this.#options;
    const frame = encoder.fail(error);
    const { socket } = response;
    // After the last frame there is no error frame: the stream is complete.
    if (frame === "" || !socket || !this.#showsCut()) {
      this.end(frame);
      return;
    }
    this.#ended = true;
    this.#cancelKeepAlive();
    socket.destroySoon();
  }

  /** Stops the stream: its client has left, or the request is answered in another way. It writes no more bytes. */
  abandon(): void {
    this.#ended = true;
    this.#cancelKeepAlive();
    this.#reader?.release();
  }

  /**
   * Returns whether the client can distinguish a closed connection from a proper end. The fetch of Node 20 does not
   * notice a missing last chunk after `connection: close`.
   */
  #showsCut(): boolean {
    const { response, headers } = this.#options;
    const connection = response.getHeader("connection") ?? headers.connection;
    return this.#framing && response.shouldKeepAlive && connection !== "close";
  }

  #gathered(flow: Flow): void {
    if (this.committed && !this.#queued) {
      this.#queued = true;
      setImmediate(this.#flush);
    }
    this.#flow = flow;
    if (this.#writable().writableNeedDrain) this.#pause(flow);
  }

  /** Ends the stream of a complete answer, of which `last` is unwritten: by default nothing. */
  end(last = ""): void {
    if (this.#ended) return;
    this.#pending += last;
    this.#write();
    this.#ended = true;
    // Node writes the last chunk.
    if (this.#framing) this.#options.response.chunkedEncoding = true;
    this.#options.response.end();
    this.#cancelKeepAlive();
  }

  #write(): boolean {
    const { response, headers, clock } = this.#options;
    if (response.destroyed) return true;
    const { socket, headersSent } = response;
    if (!headersSent) {
      // The head is sent with the first chunk. Chunks are framed here after it: Node must have no pending ones then, as
      // it joins those of a turn, and Node 26 expects to frame them. HTTP/1.0 has no chunks.
      socket?.cork();
      response.writeHead(200, headers);
      response.flushHeaders();
      this.#framing = response.chunkedEncoding;
      response.chunkedEncoding = false;
    }
    this.committed = true;
    this.#lastWriteMs = clock.nowMs();
    const text = this.#pending;
    this.#pending = "";
    const kept = text === "" || this.#send(text);
    if (!headersSent) socket?.uncork();
    return kept;
  }

  /**
   * Writes a chunk as one text. Node makes four writes of a chunk, including the text; one write costs a tenth less CPU
   * of the whole path.
   */
  #send(text: string): boolean {
    const writable = this.#writable();
    if (!this.#framing) return writable.write(text, "utf8");
    const bytes = Buffer.byteLength(text);
    // ASCII: one byte per character, and latin1 is cheaper to write than UTF-8.
    const encoding = bytes === text.length ? "latin1" : "utf8";
    return writable.write(`${bytes.toString(16)}\r\n${text}\r\n`, encoding);
  }

  /**
   * Returns the target of chunks. Once the head is sent, chunks framed here are written directly to the connection: the
   * response would delay each until the end of the turn, which a flush already is. A pipelined request gets the
   * connection only after the earlier one is answered.
   */
  #writable(): Sink {
    const { response } = this.#options;
    return (this.#framing && response.socket) || response;
  }

  #pause(flow: Flow): void {
    const { onStall, response } = this.#options;
    this.#reader ??= new SlowReader({
      ...this.#options,
      onStall: () => {
        onStall();
        response.destroy();
      },
    });
    if (!this.#reader.paused) this.#writable().once("drain", () => this.#reader?.drained());
    this.#reader.pause(flow);
  }

  #keepAlive(): void {
    if (this.#ended) return;
    const { clock, encoder, keepAliveIntervalMs } = this.#options;
    if (clock.nowMs() - this.#lastWriteMs >= this.#silenceMs() && !this.#reader?.paused) {
      this.#pending += encoder.keepAlive();
      this.#write();
    }
    const next = Math.max(1, this.#silenceMs() - (clock.nowMs() - this.#lastWriteMs));
    this.#cancelKeepAlive = clock.after(this.#reader?.paused ? keepAliveIntervalMs : next, () => this.#keepAlive());
  }

  /** In milliseconds. Clients and proxies wait less long for a status line than for more of a body. */
  #silenceMs(): number {
    const { keepAliveIntervalMs, headerCommitMs } = this.#options;
    return this.committed ? keepAliveIntervalMs : Math.min(keepAliveIntervalMs, headerCommitMs);
  }
}
