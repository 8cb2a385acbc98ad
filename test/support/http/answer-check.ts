import { parseSse } from "./sse-reader.ts";
import { valueAt } from "./value-at.ts";

export const ANSWER_PATHS = ["/v1/chat/completions", "/v1/messages", "/v1/responses"] as const;
export type AnswerPath = (typeof ANSWER_PATHS)[number];

export function bodyFor(path: AnswerPath, text: string, fields: object = {}): object {
  if (path === "/v1/responses") return { model: "svc-qwen", input: text, ...fields };
  const messages = [{ role: "user", content: text }];
  return { model: "svc-qwen", messages, ...(path === "/v1/messages" && { max_tokens: 100_000 }), ...fields };
}

/** `truncated` is clean without a final event or error frame, which is never correct. */
export type StreamEnd =
  | { readonly end: "complete" }
  | { readonly end: "error"; readonly error: unknown }
  | { readonly end: "cut" }
  | { readonly end: "truncated" };

/** Returns the default end of a broken stream in the path's format, if a retry may help. */
export function brokenEnd(path: AnswerPath): "cut" | "error" {
  return path === "/v1/responses" ? "error" : "cut";
}

type Data = Readonly<Record<string, unknown>>;

/** Final event types of a messages stream, and of a responses stream that completed or reached its length. */
const LAST_WORDS = ["message_stop", "response.completed", "response.incomplete"];

/** Classifies the end of a stream. `cut` is true if the connection was closed after the text. */
export function endOf(path: AnswerPath, text: string, cut = false): StreamEnd {
  if (cut) return { end: "cut" };
  const events = parseSse(text);
  const done = events.at(-1)?.data === "[DONE]";
  const last = (done ? events.at(-2) : events.at(-1))?.data as Data | undefined;
  if (path === "/v1/chat/completions") {
    if (!done) return { end: "truncated" };
    if (last?.error) return { end: "error", error: last.error };
    return finishes(events.map(({ data }) => data as Data)) ? { end: "complete" } : { end: "truncated" };
  }
  if (LAST_WORDS.some((type) => type === last?.type)) return { end: "complete" };
  if (last?.type === "error") return { end: "error", error: last.error };
  const response = last?.response as Data | undefined;
  return last?.type === "response.failed" ? { end: "error", error: response?.error } : { end: "truncated" };
}

function finishes(chunks: readonly Data[]): boolean {
  return chunks.some(({ choices }) => Array.isArray(choices) && choices.some((choice) => choice.finish_reason));
}

export function hasDelta(path: AnswerPath, text: string): boolean {
  if (path === "/v1/chat/completions") return /"content":"[^"]/.test(text);
  return text.includes(path === "/v1/messages" ? "content_block_delta" : "output_text.delta");
}

export function textOf(path: AnswerPath, text: string): string {
  return parseSse(text)
    .map(({ data }) => pieceOf(path, data as Data))
    .join("");
}

/** Returns the text of an answer that is not streamed; undefined in an error. */
export function foldedText(path: AnswerPath, body: string): string | undefined {
  const reply = JSON.parse(body);
  if (path === "/v1/messages") return reply.content?.[0]?.text;
  if (path === "/v1/responses") return reply.output?.[0]?.content?.[0]?.text;
  return reply.choices?.[0]?.message?.content;
}

function pieceOf(path: AnswerPath, data: Data): string {
  if (path === "/v1/responses") return data.type === "response.output_text.delta" ? String(data.delta) : "";
  const piece =
    path === "/v1/messages" ? valueAt(data, "delta", "text") : valueAt(data, "choices", 0, "delta", "content");
  return typeof piece === "string" ? piece : "";
}
