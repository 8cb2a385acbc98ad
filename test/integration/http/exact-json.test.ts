import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";

/* JSON that is passed on as text reaches the engine byte for byte. */

let service: ScriptedService;
beforeAll(async () => {
  service = await startScriptedService();
});
afterAll(() => service.stop());

/** Text that JSON.stringify would write differently: index keys, numbers, and strings that look like them. */
const SCHEMA = [
  '{"type":"object","properties":{"b":{"minimum":1.0,"maximum":1e3},"10":{"const":12345678901234567890},',
  '"2":{"default":-0},"__proto__":{"enum":[0.10,"1.0","é\\n"]}},"required":["b","10"],"additionalProperties":false}',
].join("");

/** The same with white space between tokens and needless escapes. */
const WRITTEN = SCHEMA.replaceAll(",", " ,\n\t").replaceAll(":", " : ").replace('"minimum"', '"\\u006dinimum"');

const EMPTY = '{"type":"object","properties":{}}';

const MODEL = '"model":"svc-qwen"';
const HI = '[{"role":"user","content":"hi"}]';

async function sent(path: string, body: string) {
  const reply = await service.gateway.post(path, body);
  expect(reply.status, await reply.text()).toBe(200);
  return service.lastRequest();
}

const TOOLS: readonly (readonly [path: string, body: (schema: string) => string])[] = [
  [
    "/v1/chat/completions",
    (schema) =>
      `{${MODEL},"messages":${HI},"tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}]}`,
  ],
  [
    "/v1/messages",
    (schema) => `{${MODEL},"max_tokens":9,"messages":${HI},"tools":[{"name":"f","input_schema":${schema}}]}`,
  ],
  [
    "/v1/responses",
    (schema) => `{${MODEL},"input":"hi","tools":[{"type":"function","name":"f","parameters":${schema}}]}`,
  ],
];

const CONSTRAINTS: readonly (readonly [place: string, path: string, body: (schema: string) => string])[] = [
  [
    "response_format",
    "/v1/chat/completions",
    (schema) =>
      `{${MODEL},"messages":${HI},"response_format":{"type":"json_schema","json_schema":{"name":"f","schema":${schema}}}}`,
  ],
  [
    "output_config",
    "/v1/messages",
    (schema) =>
      `{${MODEL},"max_tokens":9,"messages":${HI},"output_config":{"format":{"type":"json_schema","schema":${schema}}}}`,
  ],
  [
    "output_format",
    "/v1/messages",
    (schema) => `{${MODEL},"max_tokens":9,"messages":${HI},"output_format":{"type":"json_schema","schema":${schema}}}`,
  ],
  [
    "text.format",
    "/v1/responses",
    (schema) => `{${MODEL},"input":"hi","text":{"format":{"type":"json_schema","name":"f","schema":${schema}}}}`,
  ],
];

describe("the schema of a tool", () => {
  test.each(TOOLS)("on %s", async (path, body) => {
    for (const written of [SCHEMA, WRITTEN]) {
      const request = await sent(path, body(written));
      expect(request.tools.map(({ parametersJsonSchema }) => parametersJsonSchema)).toEqual([SCHEMA]);
    }
  });

  test("in a group of tools", async () => {
    const tool = `{"type":"function","name":"f","parameters":${WRITTEN}}`;
    const request = await sent(
      "/v1/responses",
      `{${MODEL},"input":"hi","tools":[{"type":"namespace","name":"n","tools":[${tool}]}]}`,
    );
    expect(request.tools[0]?.parametersJsonSchema).toBe(SCHEMA);
  });
});

test.each(CONSTRAINTS)("the schema of the answer in %s on %s", async (_place, path, body) => {
  for (const written of [SCHEMA, WRITTEN]) {
    const { outputConstraint } = await sent(path, body(written));
    expect(outputConstraint?.kind).toMatchObject({ $case: "jsonSchema", value: { schemaJson: SCHEMA } });
  }
});

/** A conversation in which the model has called a tool with `input`. */
function called(input: string): string {
  const call = `{"type":"tool_use","id":"t1","name":"f","input":${input}}`;
  const result = '{"type":"tool_result","tool_use_id":"t1","content":"done"}';
  const turns = `{"role":"assistant","content":[${call}]},{"role":"user","content":[${result}]}`;
  const tools = `"tools":[{"name":"f","input_schema":${EMPTY}}]`;
  return `{${MODEL},"max_tokens":9,${tools},"messages":[{"role":"user","content":"hi"},${turns}]}`;
}

async function argumentsOf(input: string) {
  const { messages } = await sent("/v1/messages", called(input));
  const parts = messages.flatMap((message) => message.parts);
  return parts.flatMap(({ kind }) => (kind?.$case === "toolCall" ? [kind.value.argumentsJson] : []));
}

describe("the arguments of an earlier call on /v1/messages", () => {
  test("arrive as they were written", async () => {
    expect(await argumentsOf(WRITTEN)).toEqual([SCHEMA]);
  });

  test("have lone surrogates replaced, also where numbers are kept", async () => {
    expect(await argumentsOf(String.raw`{"b":1.0,"1":"\ud800"}`)).toEqual(['{"b":1.0,"1":"\ufffd"}']);
  });

  test("are those that were checked where a key comes twice", async () => {
    expect(await argumentsOf('{"b":[1.0],"1":2,"b":{"c":3.0}}')).toEqual(['{"b":{"c":3.0},"1":2}']);
  });

  test("are the same bytes whatever else is in the body", async () => {
    const input = String.raw`{"z":"\u0041","a":[1,2]}`;
    const alone = await argumentsOf(input);
    const beside = await sent("/v1/messages", called(input).replace(EMPTY, '{"minimum":1.0}'));
    expect(JSON.stringify(beside.messages)).toContain(JSON.stringify(alone[0]));
    expect(alone).toEqual(['{"z":"A","a":[1,2]}']);
  });
});

test("a big body is read in turns and arrives whole", async () => {
  const filler = JSON.stringify("ä".repeat(1_500_000));
  const body = called(WRITTEN).replace('"content":"hi"', `"content":${filler}`);
  const { messages } = await sent("/v1/messages", body);
  const [first, second] = messages.map(({ parts }) => parts[0]?.kind);
  expect(first?.$case === "text" && first.value.text.length).toBe(1_500_000);
  expect(second).toMatchObject({ value: { argumentsJson: SCHEMA } });
});
