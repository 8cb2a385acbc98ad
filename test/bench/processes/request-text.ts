import type { Directive } from "./directive.ts";

export const BENCH_FORMATS = ["chat", "messages", "responses"] as const;
export type BenchFormat = (typeof BENCH_FORMATS)[number];

const MODEL = "svc-qwen";

/** Path and streaming body of a request with one short prompt, per format. */
const SHAPES: Readonly<Record<BenchFormat, { readonly path: string; body(prompt: string): object }>> = {
  chat: {
    path: "/v1/chat/completions",
    body: (content) => ({ model: MODEL, stream: true, messages: [{ role: "user", content }] }),
  },
  messages: {
    path: "/v1/messages",
    body: (content) => ({ model: MODEL, stream: true, max_tokens: 1_024, messages: [{ role: "user", content }] }),
  },
  responses: {
    path: "/v1/responses",
    body: (input) => ({ model: MODEL, stream: true, input }),
  },
};

/** Returns the format of a path; chat for any other path. */
export function formatOfPath(path: string): BenchFormat {
  return BENCH_FORMATS.find((format) => SHAPES[format].path === path) ?? "chat";
}

/** Returns the bytes of a request with the directive, as ASCII. `headers` are added to those of the format. */
export function requestText(
  format: BenchFormat,
  key: string,
  directive: Directive,
  headers: readonly string[] = [],
): string {
  const { path, body } = SHAPES[format];
  return withHead(path, key, JSON.stringify(body(JSON.stringify(directive))), headers);
}

function withHead(path: string, key: string, content: string, headers: readonly string[]): string {
  return [
    `POST ${path} HTTP/1.1`,
    "host: bench",
    `authorization: Bearer ${key}`,
    "content-type: application/json",
    ...headers,
    `content-length: ${content.length}`,
    "",
    content,
  ].join("\r\n");
}

/** The size of the messages in a long request, in bytes. */
const MESSAGE_BYTES = 1_000;

/**
 * Returns the bytes of a chat request for an unstreamed answer of `tokens` events, with a body of about `bytes` bytes:
 * a conversation of messages of about a kilobyte. `headers` are added to those of the format.
 */
export function replyRequestText(key: string, bytes: number, tokens: number, headers: readonly string[] = []): string {
  const directive = JSON.stringify({ events: tokens, eventsPerSecond: 0, eventsPerWrite: tokens });
  const padded = Math.max(0, bytes - 200);
  const length = Math.max(1, Math.min(MESSAGE_BYTES, padded));
  const earlier = Array.from({ length: Math.floor(padded / length) }, (_, at) => ({
    role: at % 2 === 0 ? "user" : "assistant",
    content: `${at} ${"lorem ipsum ".repeat(length)}`.slice(0, Math.max(1, length - 40)),
  }));
  const messages = [...earlier, { role: "user", content: directive }];
  return withHead("/v1/chat/completions", key, JSON.stringify({ model: MODEL, messages }), headers);
}
