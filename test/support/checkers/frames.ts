import { must, StreamFault } from "./machine.ts";
import { asObject, type JsonObject } from "./shape.ts";

/** One frame of an event stream, read as strictly as by the strictest client. */
export type Frame =
  | { readonly kind: "comment" }
  | { readonly kind: "event"; readonly event: string | undefined; readonly data: string };

const EVENT = /^(?:event: ([a-z_.]+)\n)?data: ([^\r\n]+)$/;

/** Returns the frames of a whole stream. Throws `StreamFault` for one that is cut, empty, or not one line of data. */
export function framesOf(text: string): Frame[] {
  if (text === "") return [];
  must(text.endsWith("\n\n"), "a stream ends behind a whole frame");
  return text.slice(0, -2).split("\n\n").map(frameOf);
}

function frameOf(text: string): Frame {
  if (text.startsWith(":")) {
    must(!/[\r\n]/.test(text), "a comment is one line");
    return { kind: "comment" };
  }
  const match = EVENT.exec(text);
  must(match !== null, "a frame is at most one event line and exactly one data line");
  return { kind: "event", event: match[1], data: match[2] ?? "" };
}

/** Returns the data of a frame whose `event:` line repeats its `type`. Throws `StreamFault` for any other. */
export function typedData(frame: Frame): JsonObject & { readonly type: string } {
  must(frame.kind === "event", "this format has no comments");
  const data = parseObject(frame.data);
  const { type } = data;
  must(typeof type === "string" && type === frame.event, "the event line is the type of the data");
  return { ...data, type };
}

/** Parses `text` as a JSON object. Throws `StreamFault` for any other text. */
export function parseObject(text: string): JsonObject {
  try {
    return asObject(JSON.parse(text), "data");
  } catch {
    throw new StreamFault("the data is a JSON object");
  }
}
