import { describe, expect, test } from "vitest";
import { chat } from "../../../../gateway/formats/chat/request.ts";
import { CHAT_UNTAKEN } from "../../../../gateway/formats/chat/schema.ts";
import { countTokens, messages } from "../../../../gateway/formats/messages/request.ts";
import { MESSAGES_UNTAKEN } from "../../../../gateway/formats/messages/schema.ts";
import type { UntakenField } from "../../../../gateway/formats/request-body.ts";
import { responses } from "../../../../gateway/formats/responses/request.ts";
import { openApiDocument } from "../../../../gateway/reference/openapi.ts";
import { CONTEXT } from "../../../support/events/encoding-context.ts";
import { FULL } from "../../../support/requests/full-bodies.ts";
import { documentedPaths, undocumented, watched } from "../../../support/schemas/documented-paths.ts";

/*
 * The reference and the programs are compared by the fields that a format reads of a body: each field read has to be
 * documented, and each documented field has to be read.
 */

const SCHEMAS = openApiDocument([]).components.schemas;

const sealer = { sign: (text: string) => text, seal: (text: string) => text, open: () => "opened" };

const context = { ...CONTEXT, sealer: () => sealer, acceptsImages: () => true };

const PNG = Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "latin1").toString("base64");
const IMAGE_URL = `data:image/png;base64,${PNG}`;
const mark = { cache_control: { type: "ephemeral", ttl: "1h" } };
const breakpoint = { prompt_cache_breakpoint: { mode: "explicit", ttl: "30m" } };
const schema = { type: "object" };

const chatBody = { model: "svc-kimik3", messages: [{ role: "user", content: "hi" }] };
const chatTool = { type: "function", function: { name: "read", parameters: schema, ...mark } };
const chatName = { type: "function", function: { name: "read" } };
const CHAT_BODIES: readonly object[] = [
  FULL["/v1/chat/completions"],
  {
    model: "svc-kimik3",
    messages: [
      { role: "system", content: "Be brief.", ...mark },
      {
        role: "user",
        content: [
          { type: "text", text: "hi", ...mark, ...breakpoint },
          { type: "image_url", image_url: { url: IMAGE_URL, detail: "low" }, ...mark, ...breakpoint },
        ],
      },
      { role: "assistant", content: [{ type: "refusal", refusal: "no", ...mark }] },
    ],
    tools: [{ ...chatTool, ...mark }],
    tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [chatName] } },
    thinking: { type: "enabled", budget_tokens: 10 },
    prompt_cache_options: { ttl: "30m", prewarm: true },
  },
  { ...chatBody, tools: [chatTool], tool_choice: chatName, chat_template_kwargs: { enable_thinking: true } },
];

const block = { type: "text", text: "hi", ...mark };
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PNG }, ...mark };
const imageByUrl = { type: "image", source: { type: "url", url: IMAGE_URL }, ...mark };
const plainDocument = { type: "document", source: { type: "text", data: "a" }, title: "t", context: "c", ...mark };
const blockDocument = { type: "document", source: { type: "content", content: [block, image, imageByUrl] } };
const found = { type: "search_result", source: "s", title: "t", content: [block], ...mark };
const blocks = [block, image, imageByUrl, plainDocument, blockDocument, found];
const use = { type: "tool_use", id: "toolu_1", name: "read", input: {}, ...mark };
const inResult = [...blocks, { type: "tool_reference", tool_name: "x", ...mark }];
const inline = {
  name: "new",
  description: "d",
  type: "custom",
  input_schema: schema,
  strict: true,
  defer_loading: true,
};
const changes = [
  { type: "tool_addition", tool: { type: "tool_reference", name: "read" }, ...mark },
  {
    type: "tool_addition",
    tool: { type: "tool_definition", definition: { ...inline, allowed_callers: ["direct"], ...mark } },
  },
  { type: "tool_removal", tool: { type: "tool_reference", name: "new" }, ...mark },
];
const result = { type: "tool_result", tool_use_id: "toolu_1", content: inResult, ...mark };
const MESSAGES_BODIES: readonly object[] = [
  FULL["/v1/messages"],
  {
    model: "svc-kimik3",
    max_tokens: 100,
    messages: [
      { role: "user", content: [{ type: "compaction", content: "before", ...mark }, ...blocks, ...changes] },
      { role: "assistant", content: [{ type: "thinking", thinking: "", signature: "sealed", ...mark }, use] },
      { role: "user", content: [result] },
    ],
    tools: [
      { name: "read", input_schema: schema, allowed_callers: ["direct"], ...mark },
      { name: "DeferredToolPlaceholder", input_schema: schema, defer_loading: true },
    ],
    tool_choice: { type: "tool", name: "read" },
    thinking: { type: "enabled", budget_tokens: 10, display: "omitted" },
    ...mark,
  },
  {
    ...chatBody,
    max_tokens: 100,
    output_format: { type: "json_schema", schema },
    compaction: { type: "summarize", instructions: "In one word." },
    diagnostics: { previous_message_id: "msg_1" },
  },
  {
    ...chatBody,
    max_tokens: 100,
    context_management: {
      edits: [
        {
          ...{ type: "compact_20260112", pause_after_compaction: true, instructions: "In one word." },
          trigger: { type: "input_tokens", value: 0 },
        },
      ],
    },
  },
];

const parts = [
  { type: "input_text", text: "hi", ...breakpoint },
  { type: "input_image", image_url: IMAGE_URL, detail: "original", ...breakpoint },
  { type: "refusal", refusal: "no" },
];
const functionTool = { type: "function", name: "read", parameters: schema };
const format = { type: "grammar", syntax: "lark", definition: "start: /a/" };
const custom = { type: "custom", name: "exec", description: "d", format };
const search = { type: "tool_search", execution: "client", description: "d", parameters: schema };
const group = { type: "namespace", name: "files", tools: [functionTool, custom] };
const skill = { name: "charts", description: "d", path: "/charts" };
const vendorTools = [
  { type: "shell", environment: { type: "local", skills: [skill] } },
  { type: "local_shell" },
  { type: "apply_patch" },
];
const limits = { timeout_ms: 1_000, max_output_length: 1_000 };
const operation = { type: "update_file", path: "a", diff: "+a" };
const outcome = { type: "exit", exit_code: 0 };
const vendorItems = [
  { type: "shell_call", call_id: "call_4", action: { commands: ["ls"], ...limits } },
  { type: "shell_call_output", call_id: "call_4", output: [{ stdout: "a", stderr: "b", outcome }] },
  { type: "local_shell_call", call_id: "call_5", action: { command: ["ls"], working_directory: "/", ...limits } },
  { type: "local_shell_call_output", id: "call_5", output: "done" },
  { type: "apply_patch_call", call_id: "call_6", operation },
  { type: "apply_patch_call_output", call_id: "call_6", status: "completed", output: "done" },
];
const choice = { type: "function", name: "read", namespace: "files" };
const RESPONSES_BODIES: readonly object[] = [
  FULL["/v1/responses"],
  {
    model: "svc-kimik3",
    input: [
      { role: "user", content: parts },
      { type: "reasoning", content: [{ type: "reasoning_text", text: "t" }], summary: [] },
      { type: "function_call", call_id: "call_1", name: "read", namespace: "files", arguments: "{}" },
      { type: "function_call_output", call_id: "call_1", output: parts },
      { type: "additional_tools", tools: [custom, search, ...vendorTools] },
      ...vendorItems,
      { type: "custom_tool_call", call_id: "call_2", name: "exec", namespace: "files", input: "text" },
      { type: "custom_tool_call_output", call_id: "call_2", output: "done" },
      { type: "tool_search_call", call_id: "call_3", execution: "client", arguments: {} },
      { type: "tool_search_output", call_id: "call_3", execution: "client", tools: [functionTool, group] },
      { type: "compaction", encrypted_content: "sealed" },
      { type: "compaction_trigger" },
    ],
    tools: [functionTool, group, custom, search, ...vendorTools],
    tool_choice: { type: "allowed_tools", mode: "auto", tools: [choice] },
    stream_options: { include_obfuscation: true },
    ...{ background: false, previous_response_id: null, conversation: null, prompt: null, moderation: null },
    ...{ context_management: [], truncation: "disabled", service_tier: "auto", prompt_cache_options: {} },
    ...{ max_tool_calls: 1, safety_identifier: "s", user: "u", frequency_penalty: 1, presence_penalty: 1 },
    ...{ top_logprobs: 1, prompt_cache_retention: "24h" },
  },
  { model: "svc/kimik3", input: "hi", tools: [group], tool_choice: choice },
];

/** The paths of all fields that `read` reads in any of the bodies. */
function readPaths(bodies: readonly object[], read: (body: unknown) => unknown): ReadonlySet<string> {
  const seen = new Set<string>();
  for (const body of bodies) read(watched(body, (path) => seen.add(path)));
  return seen;
}

const ENDPOINTS = [
  ["ChatRequest", CHAT_BODIES, (body: unknown) => chat.prepare(body, context)],
  ["MessagesRequest", MESSAGES_BODIES, (body: unknown) => messages.prepare(body, context)],
  ["ResponsesRequest", RESPONSES_BODIES, (body: unknown) => responses.prepare(body, context)],
] as const;

const refusedOf = (fields: readonly UntakenField[]) =>
  fields.filter(({ becomes }) => becomes === "refused").map(({ field }) => field);

/** The fields that are read in order to be refused by name, which the reference lists in a table of their own. */
const REFUSED: Readonly<Record<string, readonly string[]>> = {
  ChatRequest: [...refusedOf(CHAT_UNTAKEN), "messages[].function_call"],
  MessagesRequest: refusedOf(MESSAGES_UNTAKEN),
  ResponsesRequest: ["input[].content[].file_id", "input[].output[].file_id", "input[].id"],
};

describe.each(ENDPOINTS)("%s", (name, bodies, prepare) => {
  const documented = documentedPaths(SCHEMAS, [name]);
  const read = readPaths(bodies, prepare);

  test("every field that the format reads is documented", () => {
    const refused = new Set(REFUSED[name]);
    expect(undocumented(read, documented).filter((path) => !refused.has(path))).toEqual([]);
  });

  test("the format reads every documented field", () => {
    const unread = [...documented.all].filter((path) => !read.has(path) && !documented.inert.has(path));
    expect(unread).toEqual([]);
  });
});

test("a count documents no field that it does not read", () => {
  const read = readPaths(MESSAGES_BODIES, (body) => countTokens.prepare(body, context));
  const documented = documentedPaths(SCHEMAS, ["CountTokensRequest"]);
  const unread = [...documented.all].filter((path) => !read.has(path) && !documented.inert.has(path));
  // `thinking` is that of a message, which a count does not show.
  expect(unread).toEqual(["thinking.display"]);
});
