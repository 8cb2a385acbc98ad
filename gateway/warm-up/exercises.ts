/*
 * What a process asks itself before others ask it: requests as coding agents send them, in each format, streamed and in
 * one piece, with tools and without.
 */

const PARAMETERS = {
  type: "object",
  properties: { path: { type: "string", description: "The path of the file." }, limit: { type: "integer" } },
  required: ["path"],
  additionalProperties: false,
};
const NAME = "read_file";
const DESCRIPTION = "Reads a file of the project and returns its lines.";
const SYSTEM = "You help with the code of this project. Say what you do before you do it. ".repeat(8);
const QUESTION = "Where does the program read its settings, and what happens when one is missing? ".repeat(4);
const LINES =
  'import { readFile } from "node:fs/promises";\nexport const settings = await readFile(path, "utf8");\n'.repeat(6);
const CALL_ID = "call_0123456789";
const ARGUMENTS = { path: "src/settings.ts" };
/** Before the last answer so many earlier turns stand. */
const TURNS = 3;

const repeated = <Item>(turns: readonly Item[]): Item[] => Array.from({ length: TURNS }, () => turns).flat();

const chatMessages = [
  { role: "system", content: SYSTEM },
  ...repeated<object>([
    { role: "user", content: QUESTION },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: CALL_ID, type: "function", function: { name: NAME, arguments: JSON.stringify(ARGUMENTS) } }],
    },
    { role: "tool", tool_call_id: CALL_ID, content: LINES },
    { role: "assistant", content: "The settings are read when the program starts." },
  ]),
  { role: "user", content: QUESTION },
];
const chatTools = [{ type: "function", function: { name: NAME, description: DESCRIPTION, parameters: PARAMETERS } }];

const blockMessages = [
  ...repeated<object>([
    { role: "user", content: QUESTION },
    { role: "assistant", content: [{ type: "tool_use", id: CALL_ID, name: NAME, input: ARGUMENTS }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: CALL_ID, content: LINES }] },
    { role: "assistant", content: [{ type: "text", text: "The settings are read when the program starts." }] },
  ]),
  { role: "user", content: QUESTION },
];
const system = [{ type: "text", text: SYSTEM, cache_control: { type: "ephemeral" } }];
const blockTools = [{ name: NAME, description: DESCRIPTION, input_schema: PARAMETERS }];

const items = [
  ...repeated<object>([
    { type: "message", role: "user", content: [{ type: "input_text", text: QUESTION }] },
    { type: "function_call", call_id: CALL_ID, name: NAME, arguments: JSON.stringify(ARGUMENTS) },
    { type: "function_call_output", call_id: CALL_ID, output: LINES },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "They are read at the start." }] },
  ]),
  { type: "message", role: "user", content: [{ type: "input_text", text: QUESTION }] },
];
const itemTools = [{ type: "function", name: NAME, description: DESCRIPTION, parameters: PARAMETERS, strict: false }];

/** The path and the body of each request, in which `stream` and `model` are still missing. */
const BODIES: readonly (readonly [path: string, body: object])[] = [
  ["/v1/chat/completions", { messages: chatMessages.slice(-1) }],
  ["/v1/messages", { max_tokens: 1_000, messages: blockMessages.slice(-1) }],
  ["/v1/responses", { input: QUESTION, store: false }],
  ["/v1/chat/completions", { messages: chatMessages, tools: chatTools, stream_options: { include_usage: true } }],
  ["/v1/messages", { max_tokens: 1_000, system, messages: blockMessages, tools: blockTools }],
  ["/v1/responses", { instructions: SYSTEM, input: items, tools: itemTools, store: false }],
];

/** Returns the bytes of all exercises, as requests of HTTP/1.1 that ask for `model` with `key`; they are ASCII. */
export function exercises(model: string, key: string): readonly string[] {
  const asked = BODIES.flatMap(([path, body]) =>
    [true, false].map((stream) => {
      // An option of streams is refused beside anything else.
      const { stream_options: streamOptions, ...rest } = body as { readonly stream_options?: object };
      return requestText(path, key, { model, ...rest, ...(stream && { stream, stream_options: streamOptions }) });
    }),
  );
  const counted = { model, system, messages: blockMessages, tools: blockTools };
  return [...asked, requestText("/v1/messages/count_tokens", key, counted), modelsText(key)];
}

function modelsText(key: string): string {
  return ["GET /v1/models HTTP/1.1", "host: loopback", `authorization: Bearer ${key}`, "", ""].join("\r\n");
}

function requestText(path: string, key: string, body: object): string {
  const content = JSON.stringify(body);
  return [
    `POST ${path} HTTP/1.1`,
    "host: loopback",
    `authorization: Bearer ${key}`,
    "anthropic-version: 2023-06-01",
    "content-type: application/json",
    `content-length: ${content.length}`,
    "",
    content,
  ].join("\r\n");
}
