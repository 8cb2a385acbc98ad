import { expect, test } from "vitest";
import { agentTurn } from "../../../../../engine/backends/scripted/agent-script.ts";
import { exampleValue, readSchema } from "../../../../../engine/backends/scripted/example-value.ts";
import {
  type Event,
  FinishReason,
  GenerateRequest,
} from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, ToolChoiceMode } from "../../../../../proto/gen/svc/inference/v1/messages.ts";

const WRITE = {
  name: "Write",
  parametersJsonSchema: JSON.stringify({
    type: "object",
    properties: { file_path: { type: "string" }, content: { type: "string" }, mode: { enum: ["a", "b"] } },
    required: ["file_path", "content", "mode"],
  }),
};
const BASH = {
  name: "Bash",
  parametersJsonSchema: '{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}',
};

const says = (role: Role, text: string) => ({ role, parts: [{ kind: { $case: "text" as const, value: { text } } }] });
const ask = says(Role.USER, "Create a file named hello.txt");

/** `request` is checked where the fields are used: the type of a partial message with a oneof cannot be written. */
function play(request: object): readonly Event[] {
  return agentTurn(GenerateRequest.fromPartial({ requestId: "req_1", ...request }));
}

function callOf(events: readonly Event[]) {
  const started = events.map(({ kind }) => kind).find((kind) => kind?.$case === "blockStarted");
  const block = started?.$case === "blockStarted" ? started.value.block : undefined;
  const text = events.map(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.text : "")).join("");
  return { name: block?.$case === "toolCall" ? block.value.name : undefined, text };
}

test("for a request of a file it calls the agent's own tool, in the agent's directory", () => {
  const system = says(Role.SYSTEM, "Primary working directory: /home/x/project.\nBe good.");
  const { name, text } = callOf(play({ messages: [system, ask], tools: [BASH, WRITE] }));
  expect(name).toBe("Write");
  expect(JSON.parse(text)).toEqual({
    file_path: "/home/x/project/hello.txt",
    content: "Hello from the scripted engine.\n",
    mode: "a",
  });
});

test("without a tool for writing it calls the shell", () => {
  const { name, text } = callOf(play({ messages: [ask], tools: [BASH] }));
  expect(name).toBe("Bash");
  expect(JSON.parse(text).command).toContain("> 'hello.txt'");
});

test("a shell that takes a program gets one that calls it", () => {
  const exec = { name: "exec", parametersJsonSchema: '{"type":"object","properties":{"input":{"type":"string"}}}' };
  const { text } = callOf(play({ messages: [ask], tools: [exec] }));
  const program = new Function("tools", "text", `return (async () => { ${JSON.parse(text).input} })()`);
  const ran: string[] = [];
  const tools = { exec_command: ({ cmd }: { readonly cmd: string }) => ran.push(cmd) };
  return program(tools, () => {}).then(() => expect(ran[0]).toContain("> 'hello.txt'"));
});

test("it finds the user's words before an agent's reminders, but not those of an earlier turn", () => {
  const reminder = says(Role.USER, "<system-reminder>Today is Monday.</system-reminder>");
  expect(callOf(play({ messages: [ask, reminder, reminder], tools: [WRITE] })).name).toBe("Write");
  // Claude Code's, where system messages are merged.
  const system = says(Role.SYSTEM, "No file has been read.");
  expect(callOf(play({ messages: [ask, system], tools: [WRITE] })).name).toBe("Write");
  expect(callOf(play({ messages: [says(Role.USER, "Hello."), system], tools: [WRITE] })).name).toBeUndefined();
  const next = [ask, says(Role.ASSISTANT, "Done."), says(Role.USER, "Thanks."), reminder];
  expect(callOf(play({ messages: next, tools: [WRITE] })).name).toBeUndefined();
});

test("after the tool's result it ends in text", () => {
  const result = { role: Role.TOOL, parts: [{ kind: { $case: "toolResult" as const, value: { callId: "call_1" } } }] };
  const events = play({ messages: [ask, result], tools: [WRITE] });
  expect(callOf(events)).toEqual({ name: undefined, text: "The tool has run; hello.txt is written." });
  expect(events.at(-1)?.kind).toMatchObject({ $case: "finished", value: { reason: FinishReason.STOP } });
});

test("a forced tool and a schema are obeyed", () => {
  const named = { mode: ToolChoiceMode.NAMED, name: "Bash" };
  const hello = says(Role.USER, "hello");
  expect(callOf(play({ messages: [hello], tools: [WRITE, BASH], toolChoice: named })).name).toBe("Bash");
  const schemaJson = '{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}';
  const outputConstraint = { kind: { $case: "jsonSchema" as const, value: { schemaJson } } };
  expect(callOf(play({ messages: [hello], outputConstraint })).text).toBe('{"title":"scripted"}');
});

test.each([
  [{ type: ["null", "string"] }, null],
  [{ anyOf: [{ type: "integer", minimum: 3 }, { type: "string" }] }, 3],
  [{ type: "array", minItems: 2, items: { type: "boolean" } }, [false, false]],
  [{ const: "x" }, "x"],
  [{ type: "string", minLength: 10 }, "scripted--"],
])("%j has an example", (schema, value) => {
  expect(exampleValue(schema)).toEqual(value);
});

test.each([
  ["a long list", { type: "array", minItems: 1e9 }],
  ["a long text", { type: "string", minLength: 1e9 }],
  [
    "lists in lists",
    { type: "array", minItems: 99, items: { type: "array", minItems: 99, items: { minItems: 99, type: "array" } } },
  ],
  ["long texts in lists", { type: "array", minItems: 9_000, items: { const: "x".repeat(200_000) } }],
])("a large example is refused: %s", (_, schema) => {
  const refused = { reason: "INVALID_SCHEMA", facts: { fault: "costly" } };
  expect(() => exampleValue(schema)).toThrowError(expect.objectContaining(refused));
});

test("a schema is parsed up to a length, and only if it is JSON", () => {
  const long = JSON.stringify({ const: "x".repeat(64 * 1024) });
  expect(readSchema("", "tools")).toEqual({});
  expect(readSchema('{"const":1}', "tools")).toEqual({ const: 1 });
  const refused = { reason: "INVALID_SCHEMA", facts: { fault: "costly", max_bytes: "65536" } };
  expect(() => readSchema(long, "tools")).toThrowError(expect.objectContaining(refused));
  expect(() => readSchema("{", "tools")).toThrowError(expect.objectContaining({ reason: "INVALID_SCHEMA", facts: {} }));
});
