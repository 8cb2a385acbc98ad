import type { IncomingMessage } from "node:http";
import { EngineError } from "../../../errors.ts";
import { callerLeft } from "../../caller-left.ts";
import { SseReader } from "./sse-reader.ts";

const DONE = "[DONE]";

/** A part of the engine's stream: its `data`, and whether the end marker has arrived (`done`). */
export type StreamStep = { readonly data: readonly string[]; readonly done: boolean };

/**
 * Reads the events of an engine's reply on demand, so that a slow caller slows the engine. The engine's silence counts
 * only while a read waits.
 */
export class EventStream {
  readonly #stream: IncomingMessage;
  readonly #pieces: AsyncIterator<unknown>;
  readonly #sse = new SseReader();
  readonly #silenceMs: number;
  readonly #signal: AbortSignal;
  #silent = false;

  /** `silenceMs` is the longest silence, in milliseconds; 0 for no limit. */
  constructor(stream: IncomingMessage, silenceMs: number, signal: AbortSignal) {
    this.#stream = stream;
    this.#pieces = stream[Symbol.asyncIterator]();
    this.#silenceMs = silenceMs;
    this.#signal = signal;
  }

  /**
   * Resolves to the next part. Throws `EngineError`: ENGINE_STREAM_TRUNCATED for an end without the marker, or why the
   * caller left.
   */
  async next(): Promise<StreamStep> {
    const piece = await this.#piece();
    if (!(piece instanceof Uint8Array)) {
      throw new EngineError("ENGINE_STREAM_TRUNCATED", "The engine's answer broke off.");
    }
    const data = this.#sse.push(piece);
    const end = data.indexOf(DONE);
    return end < 0 ? { data, done: false } : { data: data.slice(0, end), done: true };
  }

  /** Closes the connection, which stops the engine. */
  close(): void {
    this.#stream.destroy();
  }

  async #piece(): Promise<unknown> {
    const timer = this.#silenceMs > 0 ? setTimeout(() => this.#giveUp(), this.#silenceMs) : undefined;
    try {
      return (await this.#pieces.next()).value;
    } catch (cause) {
      if (this.#signal.aborted) throw callerLeft(this.#signal);
      if (this.#silent) throw new EngineError("ENGINE_DOWN", "The engine has gone silent.");
      throw new EngineError("ENGINE_STREAM_TRUNCATED", "The engine's answer broke off.", {}, cause);
    } finally {
      clearTimeout(timer);
    }
  }

  #giveUp(): void {
    this.#silent = true;
    this.#stream.destroy(new Error("silence"));
  }
}
