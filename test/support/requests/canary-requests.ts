export type Planted = {
  readonly path: string;
  /** Default: POST. */
  readonly method?: "GET" | "POST";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array<ArrayBuffer>;
};

type Plant = (canary: string) => Planted;

const turn = (content: unknown) => [{ role: "user", content }];

function chat(fields: object): Planted {
  return { path: "/v1/chat/completions", body: JSON.stringify({ model: "svc-qwen", messages: turn("hi"), ...fields }) };
}

function messages(fields: object): Planted {
  const body = JSON.stringify({ model: "svc-qwen", messages: turn("hi"), max_tokens: 64, ...fields });
  return { path: "/v1/messages", body };
}

function responses(fields: object): Planted {
  return { path: "/v1/responses", body: JSON.stringify({ model: "svc-qwen", input: "hi", ...fields }) };
}

function chatTool(name: string, property: object, description = "A tool"): Planted {
  const parameters = { type: "object", properties: property };
  return chat({ tools: [{ type: "function", function: { name, description, parameters } }] });
}

const image = (word: string) => `data:image/png;base64,${Buffer.from(word).toString("base64")}`;

function utf8Neighbour(word: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array([...Buffer.from(`{"model":"${word}`), 0xff, ...Buffer.from(`${word}"}`)]);
}

/** The places of text from callers and from the engine: one request for each. */
export const PLANTS: Readonly<Record<string, Plant>> = {
  "chat user text": (word) => chat({ messages: turn(word) }),
  "chat streamed user text": (word) => chat({ messages: turn(word), stream: true }),
  "chat system text": (word) => chat({ messages: [{ role: "system", content: word }, ...turn("hi")] }),
  "chat tool name": (word) => chatTool(word, {}),
  "chat tool description": (word) => chatTool("read", {}, word),
  "chat schema property": (word) => chatTool("read", { [word]: { type: "string" } }),
  "chat enum value": (word) => chatTool("read", { path: { enum: [word] } }),
  "chat pattern": (word) => chatTool("read", { path: { type: "string", pattern: `^${word}(a+)+$` } }),
  "chat schema reference": (word) => chatTool("read", { path: { $ref: `http://${word}.test/` } }),
  "chat schema type": (word) => chatTool("read", { path: { type: word } }),
  "chat tool choice": (word) => chat({ tool_choice: { type: "function", function: { name: word } } }),
  "chat tool result": (word) =>
    chat({
      messages: [
        ...turn("hi"),
        {
          role: "assistant",
          tool_calls: [{ id: "call_1", type: "function", function: { name: "f", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "call_1", content: word },
      ],
    }),
  "chat tool call id": (word) => chat({ messages: [...turn("hi"), { role: "tool", tool_call_id: word, content: "" }] }),
  "chat image": (word) => chat({ messages: turn([{ type: "image_url", image_url: { url: image(word) } }]) }),
  "chat image address": (word) =>
    chat({ messages: turn([{ type: "image_url", image_url: { url: `http://${word}/` } }]) }),
  "chat stop string": (word) => chat({ stop: [word] }),
  "chat cache key": (word) => chat({ prompt_cache_key: word }),
  "chat user and metadata": (word) => chat({ user: word, metadata: { [word]: word } }),
  "chat unknown field": (word) => chat({ [word]: word }),
  "chat wrong value": (word) => chat({ reasoning: { effort: word } }),
  "chat wrong type": (word) => chat({ temperature: word }),
  "chat role": (word) => chat({ messages: [{ role: word, content: "hi" }] }),
  "chat response format": (word) => chat({ response_format: { type: word } }),
  "chat model": (word) => chat({ model: word }),
  "messages user text": (word) => messages({ messages: turn(word), stream: true }),
  "messages system text": (word) => messages({ system: word }),
  "messages prefill": (word) => messages({ messages: [...turn("hi"), { role: "assistant", content: word }] }),
  "messages unknown block": (word) => messages({ messages: turn([{ type: word, text: word }]) }),
  "messages tool use id": (word) => messages({ messages: turn([{ type: "tool_result", tool_use_id: word }]) }),
  "messages user id": (word) => messages({ metadata: { user_id: word } }),
  "messages stop sequence": (word) => messages({ stop_sequences: [word] }),
  "count_tokens user text": (word) => ({ ...messages({ messages: turn(word) }), path: "/v1/messages/count_tokens" }),
  "responses input": (word) => responses({ input: word, stream: true }),
  "responses instructions": (word) => responses({ instructions: word }),
  "responses sealed reasoning": (word) => responses({ input: [{ type: "reasoning", encrypted_content: word }] }),
  "responses compaction": (word) => responses({ input: [{ type: "compaction", encrypted_content: word }] }),
  "responses to be compacted": (word) => ({ ...responses({ input: word }), path: "/v1/responses/compact" }),
  "responses previous id": (word) => responses({ previous_response_id: word }),
  "responses unknown field": (word) => responses({ [word]: 1 }),
  "responses client tags": (word) => responses({ client_metadata: { x: word } }),
  "query string": (word) => ({ ...chat({}), path: `/v1/chat/completions?${word}=${word}` }),
  path: (word) => ({ path: `/v1/${word}`, body: "{}" }),
  "path of a model": (word) => ({ path: `/v1/models/${word}`, method: "GET" }),
  "path that cannot be decoded": (word) => ({ path: `/v1/models/%zz${word}`, method: "GET" }),
  header: (word) => ({ ...chat({}), headers: { "x-note": word, "user-agent": word, "x-request-id": word } }),
  "version header": (word) => ({ ...messages({}), headers: { "vendor-version": word } }),
  "content type": (word) => ({ ...chat({}), headers: { "content-type": `text/${word}` } }),
  key: (word) => ({ ...chat({}), headers: { authorization: `Bearer ${word}` } }),
  "body that is cut": (word) => ({ path: "/v1/chat/completions", body: `{"model":"${word}` }),
  "body that is no JSON": (word) => ({ path: "/v1/messages", body: `{"model":${word}}` }),
  "body that is not UTF-8": (word) => ({ path: "/v1/responses", body: utf8Neighbour(word) }),
  "body above the limit": (word) => chat({ messages: turn(word.repeat(20_000)) }),
};
