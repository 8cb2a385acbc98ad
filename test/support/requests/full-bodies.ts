import type { PostPath } from "./minimal-bodies.ts";

const SCHEMA = {
  type: "object",
  properties: { path: { type: "string", description: "Where" }, lines: { type: "integer", minimum: 1 } },
  required: ["path"],
  additionalProperties: false,
};

const TURNS_B = [
  { role: "user", content: [{ type: "text", text: "Look.", cache_control: { type: "ephemeral" } }] },
  {
    role: "assistant",
    content: [
      { type: "thinking", thinking: "First look.", signature: "c2ln" },
      { type: "text", text: "Reading." },
      { type: "tool_use", id: "toolu_1", name: "read", input: { path: "a.ts" } },
    ],
  },
  { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "x" }] }] },
];

const MESSAGES = {
  model: "svc-qwen",
  system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral", ttl: "5m" } }],
  messages: TURNS_B,
  tools: [{ name: "read", description: "Reads", input_schema: SCHEMA }],
  tool_choice: { type: "auto", disable_parallel_tool_use: true },
  thinking: { type: "enabled", budget_tokens: 1_024 },
};

const RESPONSES = {
  model: "svc/qwen",
  instructions: "Be brief.",
  input: [
    { role: "user", content: [{ type: "input_text", text: "Look." }] },
    { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "First look." }] },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "Reading.", annotations: [] }] },
    { type: "function_call", call_id: "call_1", name: "read", arguments: '{"path":"a.ts"}' },
    { type: "function_call_output", call_id: "call_1", output: "x" },
  ],
  tools: [{ type: "function", name: "read", description: "Reads", parameters: SCHEMA, strict: false }],
  tool_choice: "auto",
  parallel_tool_calls: false,
  text: { format: { type: "json_schema", name: "answer", schema: SCHEMA, strict: true }, verbosity: "low" },
  reasoning: { effort: "low", summary: "auto" },
  include: ["reasoning.encrypted_content"],
  max_output_tokens: 64,
  temperature: 0.5,
  top_p: 0.9,
  stream: true,
  store: false,
  metadata: { tag: "x" },
  prompt_cache_key: "session",
  client_metadata: { client: "x" },
};

/** A valid body of every POST endpoint, with nearly every field of the endpoint. */
export const FULL: Readonly<Record<PostPath, object>> = {
  "/v1/chat/completions": {
    model: "svc-qwen",
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", name: "me", content: [{ type: "text", text: "Look." }] },
      {
        role: "assistant",
        content: null,
        reasoning_content: "First look.",
        tool_calls: [{ id: "call_1", type: "function", function: { name: "read", arguments: '{"path":"a.ts"}' } }],
      },
      { role: "tool", tool_call_id: "call_1", content: "x" },
    ],
    tools: [{ type: "function", function: { name: "read", description: "Reads", parameters: SCHEMA, strict: true } }],
    tool_choice: "auto",
    parallel_tool_calls: false,
    response_format: { type: "json_schema", json_schema: { name: "answer", schema: SCHEMA, strict: true } },
    reasoning: { effort: "low" },
    max_completion_tokens: 64,
    temperature: 0.5,
    top_p: 0.9,
    seed: 3,
    stop: ["END", "STOP"],
    logit_bias: { "17": 1 },
    logprobs: true,
    top_logprobs: 2,
    frequency_penalty: 0.1,
    presence_penalty: 0.1,
    n: 1,
    stream: true,
    stream_options: { include_usage: true },
    prompt_cache_key: "session",
    cache_ttl: "5m",
    metadata: { tag: "x" },
    user: "u",
  },
  "/v1/messages": {
    ...MESSAGES,
    max_tokens: 4_096,
    temperature: 0.5,
    top_p: 0.9,
    top_k: 5,
    stop_sequences: ["END"],
    stream: true,
    metadata: { user_id: "u" },
    output_config: { effort: "low", format: { type: "json_schema", schema: SCHEMA } },
  },
  "/v1/messages/count_tokens": MESSAGES,
  "/v1/responses": RESPONSES,
  "/v1/responses/compact": { ...RESPONSES, stream: false },
  "/v1/responses/input_tokens": RESPONSES,
};
