/** One event of a stream, as a client reads it. */
export type SseEvent = { readonly type: string; readonly sequence_number: number; readonly [field: string]: unknown };

/** Splits the text of a stream; throws where a frame is not one `event:` line, one `data:` line and an empty line. */
export function sseEvents(stream: string): readonly SseEvent[] {
  const frames = stream.split("\n\n");
  if (frames.pop() !== "") throw new Error("the stream ends inside a frame");
  return frames.map((frame) => {
    const match = /^event: ([^\r\n]+)\ndata: ([^\r\n]+)$/.exec(frame);
    if (!match) throw new Error("not a frame");
    const event = JSON.parse(match[2] ?? "") as SseEvent;
    if (event.type !== match[1]) throw new Error("the event line differs from the type");
    return event;
  });
}

/** The announced item or response, if any. */
export function fieldOf(event: SseEvent | undefined, name: string): Record<string, unknown> {
  const value = event?.[name];
  if (typeof value !== "object" || value === null) throw new Error(`no ${name} in the event`);
  return value as Record<string, unknown>;
}
