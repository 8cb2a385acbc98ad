import type { Directive } from "./directive.ts";

/** The formats that the benches ask in. */
export const BENCH_FORMATS = ["chat", "messages", "responses"] as const;
/** The name of a format that the benches ask in. */
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

/** Returns the bytes of a request that asks for what the directive says, as ASCII. */
export function requestText(format: BenchFormat, key: string, directive: Directive): string {
  const { path, body } = SHAPES[format];
  const content = JSON.stringify(body(JSON.stringify(directive)));
  return [
    `POST ${path} HTTP/1.1`,
    "host: bench",
    `authorization: Bearer ${key}`,
    "content-type: application/json",
    `content-length: ${content.length}`,
    "",
    content,
  ].join("\r\n");
}
