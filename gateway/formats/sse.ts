/*
 * Text of server-sent events. JSON text holds no line ends, so every event is one `data:` line. An event without data
 * is never built: SDKs parse the empty text and throw.
 */

/**
 * Writes one event. `event` is the text of its `event:` line, undefined for formats that have none; `data` is one line.
 */
export function frame(event: string | undefined, data: string): string {
  return event === undefined ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`;
}

/** Returns the data of the events in a text of whole frames. */
export function dataOf(frames: string): string[] {
  const found: string[] = [];
  for (let at = 0; at < frames.length; ) {
    const begin = frames.indexOf(DATA, at) + DATA.length;
    const end = frames.indexOf("\n\n", begin);
    found.push(frames.slice(begin, end));
    at = end + 2;
  }
  return found;
}

const DATA = "data: ";

/** The keep-alive of formats whose clients all skip comments. */
export const COMMENT_KEEP_ALIVE = ": keep-alive\n\n";

export const DONE = frame(undefined, "[DONE]");

/** The placeholder of a later value in a template. Templates hold no text of callers, which could equal it. */
export const HOLE = "\u0000";

const HOLE_JSON = JSON.stringify(HOLE);

/**
 * Returns the texts before, between and after the holes of an event, for events that differ by a value or two: the JSON
 * text of the values between these pieces is the event. There is one piece more than there are holes.
 */
export function framePieces(event: string | undefined, template: object): readonly string[] {
  return frame(event, JSON.stringify(template)).split(HOLE_JSON);
}

/** An event without one of its values. */
export type OpenFrame = { readonly prefix: string; readonly suffix: string };

/** Makes an event whose template has exactly one hole. Throws TypeError otherwise. */
export function openFrame(event: string | undefined, template: object): OpenFrame {
  const [prefix, suffix, ...more] = framePieces(event, template);
  if (prefix === undefined || suffix === undefined || more.length > 0) throw new TypeError("expected exactly one hole");
  return { prefix, suffix };
}

/** Writes the event with `text` in its hole, at the cost of the escaping. */
export function filled(open: OpenFrame, text: string): string {
  return open.prefix + JSON.stringify(text) + open.suffix;
}
