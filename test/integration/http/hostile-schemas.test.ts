import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, delta, finished, started, toolCallStart } from "../../support/events/events.ts";
import { type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { HOSTILE_SHAPES } from "../../support/schemas/hostile-schema.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

/*
 * Schemas and arguments that are expensive or dangerous to process, through the gateway and the engine's final
 * validation.
 */

let service: ScriptedService;
beforeAll(async () => {
  service = await startScriptedService();
});
afterAll(() => service.stop());

const LEVELS = 9000;
const nested = (open: string, close: string) => `${open.repeat(LEVELS)}1${close.repeat(LEVELS)}`;
const DEEP_LIST = nested("[", "]");
const DEEP_OBJECT = nested('{"a":', "}");

const MODEL = '"model":"svc-qwen"';
const HI = '[{"role":"user","content":"hi"}]';
/** The formats, with the positions of a tool, an earlier call with its arguments, and the arguments of a reply. */
const FORMATS = [
  {
    path: "/v1/chat/completions",
    param: "tools[0].function.parameters",
    tool: (schema: string) =>
      `{${MODEL},"messages":${HI},"tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}]}`,
    history: (args: string) =>
      `{${MODEL},"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":${JSON.stringify(args)}}}]},{"role":"tool","tool_call_id":"c","content":"ok"}]}`,
    depthIsText: true,
  },
  {
    path: "/v1/messages",
    param: "tools.0.input_schema",
    tool: (schema: string) =>
      `{${MODEL},"max_tokens":9,"messages":${HI},"tools":[{"name":"f","input_schema":${schema}}]}`,
    history: (args: string) =>
      `{${MODEL},"max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":${args}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"ok"}]}]}`,
    depthIsText: false,
  },
  {
    path: "/v1/responses",
    param: "tools[0].parameters",
    tool: (schema: string) => `{${MODEL},"input":"hi","tools":[{"type":"function","name":"f","parameters":${schema}}]}`,
    history: (args: string) =>
      `{${MODEL},"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"f","arguments":${JSON.stringify(args)}},{"type":"function_call_output","call_id":"c","output":"ok"}]}`,
    depthIsText: true,
  },
] as const;

/** Makes the engine call the tool with these arguments. */
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
const ARGUMENTS = ["{}", '{"a":1}', `{"a":${DEEP_LIST}}`, `{"a":${DEEP_OBJECT}}`];

describe.each(FORMATS)("$path", ({ path, param, tool, history, depthIsText }) => {
  const post = async (body: string) => {
    const reply = await service.gateway.post(path, body);
    return { status: reply.status, text: await reply.text() };
  };

  test.each(ODD)(
    "a tool that is not strict gets its call, whatever its schema requires of the argument: %j",
    async (a) => {
      for (const args of ARGUMENTS.slice(0, 3)) {
        playCall(args);
        const { status, text } = await post(tool(JSON.stringify({ type: "object", properties: { a } })));
        expect(status, text).toBe(200);
        expect(text).toContain('"f"');
      }
    },
  );

  test("arguments nested thousands deep beside enum and const pass, and are checked without harm", async () => {
    const schema = JSON.stringify({
      properties: { a: { enum: [1], const: [[1]], uniqueItems: true } },
      not: { const: 1 },
    });
    playCall(`{"a":${DEEP_LIST}}`);
    const { status, text } = await post(tool(schema));
    expect(status).toBe(200);
    // The format with arguments as a value omits what its callers could not parse.
    expect(text).toContain(depthIsText ? "[".repeat(LEVELS) : '"input":{}');
  });

  test("every hostile shape of a schema is answered, or refused by the tool's field", async () => {
    playCall('{"a":[[1]]}');
    for (const [name, shape] of Object.entries(HOSTILE_SHAPES)) {
      const { status, text } = await post(tool(JSON.stringify(shape(new SeededRandom(1), 20))));
      expect([200, 400], `${name}: ${text}`).toContain(status);
      if (status === 400) expect(text, name).toContain(param);
    }
  });

  test(`a schema of ${LEVELS} levels is refused`, async () => {
    const { status, text } = await post(tool(nested('{"items":', "}")));
    expect(status, text).toBe(400);
    expect(text).not.toContain("RangeError");
  });

  test(`arguments of ${LEVELS} levels in the history are refused, or harmless where they are a text`, async () => {
    playCall("{}");
    const { status, text } = await post(history(DEEP_OBJECT));
    expect(status, text).toBe(depthIsText ? 200 : 400);
  });
});

test("no engine was blamed for any of it", async () => {
  const { status } = await service.post("/v1/chat/completions");
  expect(status).toBe(200);
});
