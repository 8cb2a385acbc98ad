/** A server-sent event: its name, if any, and its data parsed as JSON (`[DONE]` stays text). */
export type SseEvent = { readonly event: string | undefined; readonly data: unknown };

/** Returns the events of a complete stream without comments. Throws on any other text. */
export function parseSse(text: string): SseEvent[] {
  const events: SseEvent[] = [];
  for (const frame of text.split("\n\n")) {
    if (frame === "" || frame.startsWith(":")) continue;
    let event: string | undefined;
    let data: string | undefined;
    for (const line of frame.split("\n")) {
      if (line.startsWith("event: ")) event = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
      else throw new Error("a line of the stream is neither event nor data");
    }
    if (data === undefined) throw new Error("an event has no data");
    events.push({ event, data: data === "[DONE]" ? data : JSON.parse(data) });
  }
  return events;
}
