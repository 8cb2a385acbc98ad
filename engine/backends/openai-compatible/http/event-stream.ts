import type { IncomingMessage } from "node:http";
import { StringDecoder } from "node:string_decoder";
import { callerLeft, EngineError } from "../../../errors.ts";

const DONE = "[DONE]";
/** The most UTF-16 units of one event. An engine's event is a delta or a usage, and far smaller. */
const MAX_EVENT = 8 * 1024 * 1024;

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

  /** Throws `EngineError`: ENGINE_STREAM_TRUNCATED for an end without the marker, or why the caller left. */
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

/**
 * Parses server-sent events from the bytes of a reply, in pieces of any size
 * (https://html.spec.whatwg.org/multipage/server-sent-events.html). Only data is returned; comments are the engine's
 * pings.
 */
export class SseReader {
  readonly #decoder = new StringDecoder("utf8");
  #line = "";
  #data: string[] = [];
  #dataLength = 0;

  /** Returns the data of completed events. Throws `EngineError` PROTOCOL_VIOLATION for one beyond the limit. */
  push(bytes: Uint8Array): readonly string[] {
    const events: string[] = [];
    const text = this.#decoder.write(bytes);
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      const line = this.#line + text.slice(from, end);
      this.#line = "";
      from = end + 1;
      const datum = this.#take(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (datum !== undefined) events.push(datum);
    }
    this.#line += text.slice(from);
    if (this.#line.length + this.#dataLength > MAX_EVENT) {
      throw new EngineError("PROTOCOL_VIOLATION", "The engine sent an event without end.");
    }
    return events;
  }

  #take(line: string): string | undefined {
    if (line === "") {
      if (this.#data.length === 0) return undefined;
      const datum = this.#data.join("\n");
      this.#data = [];
      this.#dataLength = 0;
      return datum;
    }
    if (!line.startsWith("data:")) return undefined;
    const value = line.slice(line.startsWith("data: ") ? 6 : 5);
    this.#data.push(value);
    this.#dataLength += value.length;
    return undefined;
  }
}
