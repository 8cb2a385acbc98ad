import { describe, expect, test } from "vitest";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, delta, finished, started, toolCallStart } from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { valueAt } from "../../support/http/value-at.ts";
import { HOSTILE_SHAPES } from "../../support/schemas/hostile-schema.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

/* Schemas and arguments that are expensive or dangerous to process do no harm, and those in a big body arrive whole. */

const service = serviceOfFile();

const MODEL = '"model":"svc-qwen"';
const HI = '"messages":[{"role":"user","content":"hi"}]';

type Body = (json: string) => string;
type Format = {
  readonly path: string;
  readonly param: string;
  readonly tool: Body;
  readonly history: Body;
  readonly argumentsAreText: boolean;
};

const FORMATS: readonly Format[] = [
  {
    path: "/v1/chat/completions",
    param: "tools[0].function.parameters",
    tool: (schema) => `{${MODEL},${HI},"tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}]}`,
    history: (args) =>
      `{${MODEL},"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":${JSON.stringify(args)}}}]},{"role":"tool","tool_call_id":"c","content":"ok"}]}`,
    argumentsAreText: true,
  },
  {
    path: "/v1/messages",
    param: "tools.0.input_schema",
    tool: (schema) => `{${MODEL},"max_tokens":9,${HI},"tools":[{"name":"f","input_schema":${schema}}]}`,
    history: (args) =>
      `{${MODEL},"max_tokens":9,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":${args}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"ok"}]}]}`,
    argumentsAreText: false,
  },
  {
    path: "/v1/responses",
    param: "tools[0].parameters",
    tool: (schema) => `{${MODEL},"input":"hi","tools":[{"type":"function","name":"f","parameters":${schema}}]}`,
    history: (args) =>
      `{${MODEL},"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"f","arguments":${JSON.stringify(args)}},{"type":"function_call_output","call_id":"c","output":"ok"}]}`,
    argumentsAreText: true,
  },
];

test("the arguments of an earlier call arrive whole in a big body, which is read in turns", async () => {
  const args = String.raw`{"b":{"minimum":1.0},"__proto__":{"enum":[0.10,"é\n"]}}`;
  const filler = JSON.stringify("ä".repeat(1_500_000));
  const [, messages] = FORMATS;
  const body = messages?.history(args).replace('"content":"hi"', `"content":${filler}`);
  const reply = await service.gateway.post("/v1/messages", body);
  expect(reply.status, await reply.text()).toBe(200);
  const parts = service.lastRequest().messages.flatMap((message) => message.parts);
  expect(parts.map(({ kind }) => kind?.$case)).toEqual(["text", "toolCall", "toolResult"]);
  expect(valueAt(parts[0], "kind", "value", "text")).toHaveLength(1_500_000);
  expect(valueAt(parts[1], "kind", "value", "argumentsJson")).toBe(args);
});

const LEVELS = 9000;
const nested = (open: string, close: string) => `${open.repeat(LEVELS)}1${close.repeat(LEVELS)}`;
const DEEP_LIST = nested("[", "]");
const DEEP_OBJECT = nested('{"a":', "}");

function playCall(args: string): void {
  const events = [started(), toolCallStart(0, "f"), delta(0, args), blockEnd(0), finished(FinishReason.TOOL_CALLS)];
  service.play(() => [events]);
}

const ODD = [
  { type: [{ toString: 1 }] },
  { type: "constructor" },
  { type: ["__proto__", 7, null] },
  { $ref: "#/definitions/Missing" },
  { $ref: "#anchor" },
  { $ref: "#/%E0%A4%A" },
  { enum: {} },
  { pattern: "(" },
];

describe.each(FORMATS)("hostile schemas on $path", ({ path, param, tool, history, argumentsAreText }) => {
  const post = async (body: string) => {
    const reply = await service.gateway.post(path, body);
    return { status: reply.status, text: await reply.text() };
  };

  test.each(ODD)("a tool that is not strict gets its call, whatever its schema requires: %j", async (a) => {
    for (const args of ["{}", '{"a":1}', `{"a":${DEEP_LIST}}`]) {
      playCall(args);
      const { status, text } = await post(tool(JSON.stringify({ type: "object", properties: { a } })));
      expect(status, text).toBe(200);
      // The format with arguments as a value shows those that are too deep to be parsed as text.
      expect(text).toContain(argumentsAreText || args.length < LEVELS ? '"f"' : '"f {');
    }
  });

  test("arguments nested thousands deep beside enum and const pass, and are checked without harm", async () => {
    playCall(`{"a":${DEEP_LIST}}`);
    const schema = { properties: { a: { enum: [1], const: [[1]], uniqueItems: true } }, not: { const: 1 } };
    const { status, text } = await post(tool(JSON.stringify(schema)));
    expect(status).toBe(200);
    expect(text).toContain("[".repeat(LEVELS));
  });

  test("every hostile shape of a schema is answered, or refused by the tool's field", async () => {
    playCall('{"a":[[1]]}');
    for (const [name, shape] of Object.entries(HOSTILE_SHAPES)) {
      const { status, text } = await post(tool(JSON.stringify(shape(new SeededRandom(1), 20))));
      expect([200, 400], `${name}: ${text}`).toContain(status);
      if (status === 400) expect(text, name).toContain(param);
    }
  });

  test(`${LEVELS} levels are refused in a schema and in earlier arguments, or harmless where these are a text`, async () => {
    playCall("{}");
    const { status, text } = await post(tool(nested('{"items":', "}")));
    expect(status, text).toBe(400);
    expect(text).not.toContain("RangeError");
    expect((await post(history(DEEP_OBJECT))).status).toBe(argumentsAreText ? 200 : 400);
  });
});
