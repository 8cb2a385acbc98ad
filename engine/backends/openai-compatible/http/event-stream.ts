import type { IncomingMessage } from "node:http";
import { EngineError } from "../../../errors.ts";
import { callerLeft } from "../../caller-left.ts";
import { SseReader } from "./sse-reader.ts";

const DONE = "[DONE]";

/** A piece of what came of the engine: some `data`, and whether the mark came that the stream is whole (`done`). */
export type StreamStep = { readonly data: readonly string[]; readonly done: boolean };

/**
 * Reads the data of an engine's reply. It is read only when somebody asks, so that a slow caller slows the engine; the
 * silence of the engine counts only while somebody waits for it.
 */
export class EventStream {
  readonly #stream: IncomingMessage;
  readonly #pieces: AsyncIterator<unknown>;
  readonly #sse = new SseReader();
  readonly #silenceMs: number;
  readonly #signal: AbortSignal;
  #silent = false;

  /** Makes a reader of `stream`. `silenceMs` is the longest time that nothing may come, in milliseconds; 0 for ever. */
  constructor(stream: IncomingMessage, silenceMs: number, signal: AbortSignal) {
    this.#stream = stream;
    this.#pieces = stream[Symbol.asyncIterator]();
    this.#silenceMs = silenceMs;
    this.#signal = signal;
  }

  /**
   * Resolves to what comes next. Throws `EngineError`: ENGINE_STREAM_TRUNCATED for an end without the mark, or why the
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
