import type { BenchFormat } from "../processes/request-text.ts";

const MODEL = "svc-qwen";
const TOOLS = 20;
const LINE = '  const value = table.get("key") ?? fallback; // näheres: siehe oben\n';
const FILE = LINE.repeat(30);

const PARAMETERS = {
  type: "object",
  properties: { path: { type: "string", description: "Where" }, lines: { type: "integer", minimum: 1 } },
  required: ["path"],
  additionalProperties: false,
};

/** A turn of an agent that reads a file, and the file. */
const TURNS: Readonly<Record<BenchFormat, (id: string) => readonly object[]>> = {
  chat: (id) => [
    {
      role: "assistant",
      content: "Reading on.",
      tool_calls: [{ id, type: "function", function: { name: "tool_0", arguments: '{"path":"a.ts"}' } }],
    },
    { role: "tool", tool_call_id: id, content: FILE },
  ],
  messages: (id) => [
    {
      role: "assistant",
      content: [
        { type: "text", text: "Reading on." },
        { type: "tool_use", id, name: "tool_0", input: { path: "a.ts" } },
      ],
    },
    { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: [{ type: "text", text: FILE }] }] },
  ],
  responses: (id) => [
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "Reading on." }] },
    { type: "function_call", call_id: id, name: "tool_0", arguments: '{"path":"a.ts"}' },
    { type: "function_call_output", call_id: id, output: FILE },
  ],
};

const WRAPS: Readonly<Record<BenchFormat, (turns: readonly object[]) => object>> = {
  chat: (turns) => ({
    ...{ model: MODEL, stream: true, messages: [{ role: "user", content: "Look around." }, ...turns] },
    tools: tools((name) => ({ type: "function", function: { name, description: LINE, parameters: PARAMETERS } })),
  }),
  messages: (turns) => ({
    ...{ model: MODEL, stream: true, max_tokens: 4_096 },
    messages: [{ role: "user", content: "Look around." }, ...turns],
    tools: tools((name) => ({ name, description: LINE, input_schema: PARAMETERS })),
  }),
  responses: (turns) => ({
    ...{ model: MODEL, stream: true, input: [{ role: "user", content: "Look around." }, ...turns] },
    tools: tools((name) => ({ type: "function", name, description: LINE, parameters: PARAMETERS, strict: false })),
  }),
};

/**
 * Makes a request as a coding agent sends it late in its session: tools, and turns that read files, until it has about
 * `bytes` bytes.
 */
export function agentBody(format: BenchFormat, bytes: number): Buffer {
  const perTurn = Buffer.byteLength(JSON.stringify(TURNS[format]("call_000000")));
  const turns = Array.from({ length: Math.ceil(bytes / perTurn) }, (_, at) => TURNS[format](`call_${at}`));
  return Buffer.from(JSON.stringify(WRAPS[format](turns.flat())));
}

function tools(tool: (name: string) => object): object[] {
  return Array.from({ length: TOOLS }, (_, at) => tool(`tool_${at}`));
}
