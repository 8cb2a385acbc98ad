import { StringDecoder } from "node:string_decoder";
import { EngineError } from "../../../errors.ts";

/** The most UTF-16 units of one event. An engine's event is a delta or a usage, and far smaller. */
const MAX_EVENT = 8 * 1024 * 1024;

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

  /**
   * Takes the next bytes, and returns the data of completed events. Throws `EngineError` PROTOCOL_VIOLATION for an
   * event beyond the limit.
   */
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
