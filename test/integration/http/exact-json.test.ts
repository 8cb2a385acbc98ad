import { describe, expect, test } from "vitest";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, delta, finished, started, toolCallStart } from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { HOSTILE_SHAPES } from "../../support/schemas/hostile-schema.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

/*
 * JSON that goes on as text reaches the engine as `JSON.stringify` writes it, with the numbers of the caller. Schemas
 * and arguments that are expensive or dangerous to process do no harm.
 */

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

/** Numbers that JSON.stringify would write in another way, and what only looks like them. */
const SCHEMA = [
  '{"type":"object","properties":{"2":{"default":-0},"10":{"const":12345678901234567890},',
  '"b":{"minimum":1.0,"maximum":1e3},"__proto__":{"enum":[0.10,"1.0","é\\n"]}},',
  '"required":["b","10"],"additionalProperties":false}',
].join("");
/** The same with white space between tokens and needless escapes. */
const WRITTEN = SCHEMA.replaceAll(",", " ,\n\t").replaceAll(":", " : ").replace('"minimum"', '"\\u006dinimum"');

async function sent(path: string, body: string) {
  const reply = await service.gateway.post(path, body);
  expect(reply.status, await reply.text()).toBe(200);
  return service.lastRequest();
}

test.each<readonly [place: string, path: string, body: Body]>([
  ...FORMATS.map(({ path, tool }) => ["tools", path, tool] as const),
  [
    "a group of tools",
    "/v1/responses",
    (schema) =>
      `{${MODEL},"input":"hi","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","parameters":${schema}}]}]}`,
  ],
  [
    "response_format",
    "/v1/chat/completions",
    (schema) =>
      `{${MODEL},${HI},"response_format":{"type":"json_schema","json_schema":{"name":"f","schema":${schema}}}}`,
  ],
  [
    "output_config",
    "/v1/messages",
    (schema) => `{${MODEL},"max_tokens":9,${HI},"output_config":{"format":{"type":"json_schema","schema":${schema}}}}`,
  ],
  [
    "output_format",
    "/v1/messages",
    (schema) => `{${MODEL},"max_tokens":9,${HI},"output_format":{"type":"json_schema","schema":${schema}}}`,
  ],
  [
    "text.format",
    "/v1/responses",
    (schema) => `{${MODEL},"input":"hi","text":{"format":{"type":"json_schema","name":"f","schema":${schema}}}}`,
  ],
])("the schema in %s on %s keeps its numbers", async (_place, path, body) => {
  for (const written of [SCHEMA, WRITTEN]) {
    const { tools, outputConstraint } = await sent(path, body(written));
    const kind = outputConstraint?.kind;
    const answer = kind?.$case === "jsonSchema" ? [kind.value.schemaJson] : [];
    expect([...tools.map(({ parametersJsonSchema }) => parametersJsonSchema), ...answer]).toEqual([SCHEMA]);
  }
});

describe("the arguments of an earlier call on /v1/messages", () => {
  const history: Body = FORMATS[1]?.history ?? String;
  const argumentsOf = async (input: string, inBody: Body = (body) => body) => {
    const { messages } = await sent("/v1/messages", inBody(history(input)));
    const parts = messages.flatMap((message) => message.parts);
    return parts.flatMap(({ kind }) => (kind?.$case === "toolCall" ? [kind.value.argumentsJson] : []));
  };

  test.each([
    ["arrive as they were written", WRITTEN, SCHEMA],
    [
      "have lone surrogates replaced, also where numbers are kept",
      String.raw`{"b":1.0,"1":"\ud800"}`,
      '{"1":"\ufffd","b":1.0}',
    ],
    ["are those that were checked where a key comes twice", '{"b":[1.0],"1":2,"b":{"c":3.0}}', '{"1":2,"b":{"c":3.0}}'],
  ])("the arguments of an earlier call on /v1/messages %s", async (_what, input, seen) => {
    expect(await argumentsOf(input)).toEqual([seen]);
  });

  test("are the same bytes whatever else is in the body", async () => {
    const input = String.raw`{"z":"\u0041","a":[1,2]}`;
    for (const properties of ["{}", '{"a":{"minimum":1.0}}'])
      expect(await argumentsOf(input, (body) => body.replace('"properties":{}', `"properties":${properties}`))).toEqual(
        ['{"z":"A","a":[1,2]}'],
      );
  });

  test("arrive whole in a big body, which is read in turns", async () => {
    const filler = JSON.stringify("ä".repeat(1_500_000));
    expect(await argumentsOf(WRITTEN, (body) => body.replace('"content":"hi"', `"content":${filler}`))).toEqual([
      SCHEMA,
    ]);
    const first = service.lastRequest().messages[0]?.parts[0]?.kind;
    expect(first?.$case === "text" && first.value.text.length).toBe(1_500_000);
  });
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
