import { parseSse } from "./sse-reader.ts";
import { valueAt } from "./value-at.ts";

export type ResponseEvent = { readonly type: string; readonly data: unknown };

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
