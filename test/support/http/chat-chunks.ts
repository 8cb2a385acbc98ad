import { parseSse } from "./sse-reader.ts";
import { valueAt } from "./value-at.ts";

export function chatChunks(sse: string): unknown[] {
  return parseSse(sse)
    .map(({ data }) => data)
    .filter((data) => data !== "[DONE]");
}

export function chatDeltas(sse: string): unknown[] {
  return chatChunks(sse)
    .map((chunk) => valueAt(chunk, "choices", 0, "delta"))
    .filter((delta) => delta !== undefined);
}

export function joinedDeltas(sse: string, field: "content" | "reasoning_content"): string {
  return chatDeltas(sse)
    .map((delta) => valueAt(delta, field) ?? "")
    .join("");
}
