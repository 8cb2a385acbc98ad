import { describe, expect, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";

/* A 400 for a schema that an engine cannot enforce names the field that holds it, in the words of each format. */

const service = serviceOfFile();

const MODEL = "svc-qwen";
const messages = [{ role: "user", content: "hi" }];
const held = { type: "object" };

type Case = {
  readonly path: string;
  /** Names of the second of two tools' schema, and of the answer's, in this format. */
  readonly tool: string;
  readonly answer: string;
  readonly body: (schema: object) => object;
};

const CASES: readonly Case[] = [
  {
    path: "/v1/chat/completions",
    tool: "tools[1].function.parameters",
    answer: "response_format",
    body: (schema) => ({
      model: MODEL,
      messages,
      tools: [held, schema].map((parameters, at) => ({
        type: "function",
        function: { name: `f${at}`, parameters, strict: true },
      })),
    }),
  },
  {
    path: "/v1/messages",
    tool: "tools.2.input_schema",
    answer: "output_config.format.schema",
    body: (schema) => ({
      model: MODEL,
      messages,
      max_tokens: 9,
      tools: [
        { name: "DeferredToolPlaceholder", input_schema: held, defer_loading: true },
        ...[held, schema].map((input_schema, at) => ({ name: `f${at}`, input_schema, strict: true })),
      ],
    }),
  },
  {
    path: "/v1/responses",
    tool: "tools[1].tools[0].parameters",
    answer: "text.format.schema",
    body: (schema) => ({
      model: MODEL,
      input: "hi",
      tools: [
        { type: "function", name: "f0", parameters: held, strict: true },
        {
          type: "namespace",
          name: "own",
          tools: [{ type: "function", name: "f1", parameters: schema, strict: true }],
        },
      ],
    }),
  },
];

function refuse(facts: Readonly<Record<string, string>>): void {
  service.play(() => {
    throw new EngineError("INVALID_SCHEMA", "words of the engine", facts);
  });
}

type Shown = { readonly error: { message: string; param?: string; code?: string } };

async function refusalOf(path: string, body: object): Promise<Shown["error"]> {
  const response = await service.gateway.post(path, body);
  expect(response.status).toBe(400);
  const { error } = (await response.json()) as Shown;
  expect(error.message).not.toContain("words of the engine");
  return error;
}

test("an engine's refusal of the grammar of a custom tool names its format", async () => {
  refuse({ field: "tools.0.parameters_json_schema", pointer: "/properties/input/pattern", fault: "not_enforceable" });
  const format = { type: "grammar", syntax: "regex", definition: "(?=a)" };
  const tools = [{ type: "custom", name: "exec", format, strict: true }];
  const error = await refusalOf("/v1/responses", { model: "svc-qwen", input: "hi", tools });
  expect(error).toMatchObject({ param: "tools[0].format", code: "invalid_function_parameters" });
});

describe.each(CASES)("$path", ({ path, tool, answer, body }) => {
  function expectField(error: Shown["error"], field: string, code: string): void {
    if (path === "/v1/messages") expect(error.message.startsWith(`${field}: `)).toBe(true);
    else expect(error).toMatchObject({ param: field, code });
  }

  const wrongTool = { pointer: "/properties/a/not", fault: "not_enforceable" };
  test.each([
    ["tools[1].parameters_json_schema", wrongTool, "the keyword at /properties/a/not cannot be enforced"],
    ["tools.1.parameters_json_schema", wrongTool, "the keyword at /properties/a/not cannot be enforced"],
    ["output_constraint.json_schema.schema_json", { pointer: "/type" }, "cannot be used at /type"],
    ["tools.1.parameters_json_schema", { pointer: "", fault: "costly", max_bytes: "65536" }, "larger than 65536 bytes"],
  ])("an engine's refusal of %s names its field: %j", async (field, facts, said) => {
    refuse({ field, ...facts } as Readonly<Record<string, string>>);
    const error = await refusalOf(path, body(held));
    if (field.startsWith("tools")) expectField(error, tool, "invalid_function_parameters");
    else expectField(error, answer, "invalid_json_schema");
    expect(error.message).toContain(said);
  });

  test("a tool that the request does not have names no field", async () => {
    refuse({ field: "tools.7.parameters_json_schema", pointer: "" });
    const { message } = await refusalOf(path, body(held));
    expect(message).toContain("cannot be used");
  });
});
