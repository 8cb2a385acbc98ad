const PNG = Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "latin1").toString("base64");
const IMAGE_URL = `data:image/png;base64,${PNG}`;
const mark = { cache_control: { type: "ephemeral", ttl: "1h" } };
const schema = { type: "object" };

const chatBody = { model: "svc-kimik3", messages: [{ role: "user", content: "hi" }] };
const chatCall = { id: "call_1", type: "function", function: { name: "read", arguments: "{}" } };
const chatTool = { type: "function", function: { name: "read", parameters: schema, ...mark }, ...mark };
const chatName = { type: "function", function: { name: "read" } };

const chatFields = {
  stream: true,
  stream_options: { include_usage: true },
  max_tokens: 9,
  max_completion_tokens: 9,
  temperature: 1,
  top_p: 1,
  frequency_penalty: 1,
  presence_penalty: 1,
  repetition_penalty: 1,
  top_k: 1,
  min_p: 1,
  logprobs: true,
  top_logprobs: 1,
  n: 1,
  parallel_tool_calls: true,
  modalities: ["text"],
  prompt_cache_key: "k",
  cache_ttl: "5m",
  reasoning: { effort: "low" },
  reasoning_effort: "low",
  stop: ["a"],
};

/** Valid bodies of chat that together have every documented field. */
export const CHAT_BODIES: readonly object[] = [
  {
    model: "svc-kimik3",
    messages: [
      { role: "system", content: "Be brief.", name: "s", ...mark },
      {
        role: "user",
        content: [
          { type: "text", text: "hi", ...mark },
          { type: "image_url", image_url: { url: IMAGE_URL, detail: "low" }, ...mark },
        ],
      },
      {
        role: "assistant",
        content: [{ type: "refusal", refusal: "no", ...mark }],
        reasoning_content: "think",
        refusal: "no",
        tool_calls: [chatCall],
      },
      { role: "tool", tool_call_id: "call_1", content: "done" },
      { role: "assistant", content: null, reasoning: "think" },
      { role: "user", content: "go on" },
    ],
    tools: [chatTool],
    tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [chatName] } },
    response_format: { type: "json_schema", json_schema: { name: "a", schema, strict: true } },
    logit_bias: { 1: 2 },
    thinking: { type: "enabled", budget_tokens: 10 },
  },
  {
    ...chatBody,
    tools: [{ ...chatTool, cache_control: null }],
    tool_choice: chatName,
    chat_template_kwargs: { enable_thinking: true },
  },
  { ...chatBody, ...chatFields, response_format: { type: "json_object" } },
];

const block = { type: "text", text: "hi", ...mark };
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PNG }, ...mark };
const imageByUrl = { type: "image", source: { type: "url", url: IMAGE_URL }, ...mark };
const plainDocument = { type: "document", source: { type: "text", data: "a" }, title: "t", context: "c", ...mark };
const blockDocument = { type: "document", source: { type: "content", content: [block, image, imageByUrl] } };
const found = { type: "search_result", source: "s", title: "t", content: [block], ...mark };
const summary = { type: "compaction", content: "before", ...mark };
const blocks = [block, image, imageByUrl, plainDocument, blockDocument, found];

const message = { model: "svc-kimik3", max_tokens: 100 };
const tool = { name: "read", type: "custom", description: "d", input_schema: schema, strict: true, ...mark };

const messageFields = { stream: true, temperature: 1, top_p: 1, top_k: 1, stop_sequences: ["a"] };

/** Valid bodies of messages that together have every documented field. */
export const MESSAGES_BODIES: readonly object[] = [
  {
    ...message,
    system: [block],
    messages: [
      { role: "user", content: [...blocks, summary] },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "", signature: "sealed", ...mark },
          { type: "tool_use", id: "toolu_1", name: "read", input: {}, ...mark },
        ],
      },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "toolu_1",
            content: [...blocks, { type: "tool_reference", tool_name: "x", ...mark }],
            ...mark,
          },
        ],
      },
    ],
    tools: [tool, { name: "DeferredToolPlaceholder", input_schema: schema, defer_loading: true }],
    tool_choice: { type: "tool", name: "read", disable_parallel_tool_use: true },
    thinking: { type: "enabled", budget_tokens: 10, display: "omitted" },
    output_config: { effort: "low", format: { type: "json_schema", schema } },
    metadata: { user_id: "u" },
    ...mark,
  },
  {
    ...message,
    ...messageFields,
    messages: [{ role: "user", content: "hi" }],
    output_format: { type: "json_schema", schema },
  },
];

const parts = [
  { type: "input_text", text: "hi" },
  { type: "input_image", image_url: IMAGE_URL, detail: "original" },
  { type: "refusal", refusal: "no" },
];
const reasoning = { type: "reasoning", content: [{ type: "reasoning_text", text: "t" }], summary: [] };
const functionTool = { type: "function", name: "read", parameters: schema };
const group = { type: "namespace", name: "files", tools: [functionTool] };
const choice = { type: "function", name: "read", namespace: "files" };

const responsesFields = {
  instructions: "Be brief.",
  stream: true,
  max_output_tokens: 9,
  parallel_tool_calls: true,
  text: { format: { type: "text" }, verbosity: "low" },
  reasoning: { effort: "low", summary: "auto", generate_summary: "auto", context: "auto", mode: "standard" },
  temperature: 1,
  top_p: 1,
  frequency_penalty: 1,
  presence_penalty: 1,
  top_logprobs: 1,
  include: ["message.output_text.logprobs"],
  prompt_cache_key: "k",
  prompt_cache_retention: "24h",
  prompt_cache_options: {},
  safety_identifier: "s",
  user: "u",
  store: false,
  background: false,
  previous_response_id: null,
  conversation: null,
  prompt: null,
  moderation: null,
  context_management: [],
  truncation: "disabled",
  service_tier: "auto",
  stream_options: { include_obfuscation: true },
  max_tool_calls: 1,
};

/** Valid bodies of responses that together have every documented field. */
export const RESPONSES_BODIES: readonly object[] = [
  {
    model: "svc-kimik3",
    input: [
      { role: "user", content: parts },
      { type: "reasoning", summary: [{ type: "summary_text", text: "s" }], content: [], encrypted_content: "" },
      reasoning,
      { type: "function_call", call_id: "call_1", name: "read", namespace: "files", arguments: "{}" },
      { type: "function_call_output", call_id: "call_1", output: parts },
      { type: "compaction", encrypted_content: "sealed" },
      { type: "compaction_trigger" },
    ],
    tools: [functionTool, group],
    tool_choice: { type: "allowed_tools", mode: "auto", tools: [choice] },
    text: { format: { type: "json_schema", name: "a", schema, strict: true, description: "d" } },
    reasoning: {},
    stream_options: {},
    metadata: { a: "b" },
    client_metadata: { a: "b" },
  },
  { ...responsesFields, model: "svc/kimik3", input: "hi", tools: [group], tool_choice: choice },
];
