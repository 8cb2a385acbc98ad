import { parseSse } from "./sse-reader.ts";
import { valueAt } from "./value-at.ts";

export type ResponseEvent = { readonly type: string; readonly data: unknown };

/** Returns the events of a responses stream. Throws if event line and type differ. */
export function responseEvents(sse: string): ResponseEvent[] {
  return parseSse(sse).map(({ event, data }) => {
    const type = valueAt(data, "type");
    if (typeof type !== "string" || event !== type) throw new Error("the event line is not the type of the data");
    return { type, data };
  });
}

export function typesOf(events: readonly ResponseEvent[]): string[] {
  return events.map(({ type }) => type).filter((type) => type !== "keepalive");
}
