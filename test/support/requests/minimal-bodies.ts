/** The smallest valid body of every POST endpoint. */
export const MINIMAL = {
  "/v1/chat/completions": { model: "svc-qwen", messages: [{ role: "user", content: "hi" }] },
  "/v1/messages": { model: "svc-qwen", messages: [{ role: "user", content: "hi" }], max_tokens: 16 },
  "/v1/messages/count_tokens": { model: "svc-qwen", messages: [{ role: "user", content: "hi" }] },
  "/v1/responses": { model: "svc-qwen", input: "hi" },
  "/v1/responses/compact": { model: "svc-qwen", input: "hi" },
  "/v1/responses/input_tokens": { model: "svc-qwen", input: "hi" },
} as const;

export type PostPath = keyof typeof MINIMAL;

export const POST_PATHS = Object.keys(MINIMAL).filter((path): path is PostPath => Object.hasOwn(MINIMAL, path));
