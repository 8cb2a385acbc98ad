import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { digestOf, type GrammarInput, grammarOf, worthReading } from "../../../../engine/caller-work/grammar-input.ts";
import { GrammarRules } from "../../../../engine/gbnf/grammar-rules.ts";
import { toGrammar } from "../../../../engine/grammar/values/json-schema.ts";
import { WorkBudget } from "../../../../engine/work-budget.ts";
import { HOSTILE_SHAPES } from "../../../support/schemas/hostile-schema.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { sizeOf } from "../../../support/size.ts";
import { markersOf } from "../output-parser/families.ts";

const ROOT = join(import.meta.dirname, "../../../..");
/** The work budget of one grammar, as documented. */
const WORK = 50_000;
const SIZES = sizeOf({ quick: 1, exhaustive: 2, promised: 4 });

type Promised = "answer" | "strict answer" | "strict tool" | "tool beside a strict one" | "tool that must be called";

function wish(schema: string, promised: Promised, profile: string): GrammarInput {
  const isAnswer = promised.endsWith("answer");
  const strict = promised.startsWith("strict");
  const tool = { name: "f", parametersJsonSchema: schema, strict };
  const beside = { name: "g", parametersJsonSchema: '{"type":"object","properties":{}}', strict: true };
  return {
    tools: isAnswer ? [] : promised === "tool beside a strict one" ? [tool, beside] : [tool],
    mustCall: promised === "tool that must be called",
    maxCalls: Number.POSITIVE_INFINITY,
    constraint: isAnswer
      ? { kind: { $case: "jsonSchema", value: { name: "x", schemaJson: schema, strict } } }
      : undefined,
    reasoning: "none",
    markers: markersOf(profile),
  };
}

const hostile = Object.entries(HOSTILE_SHAPES).map(([name, shape], at) => ({
  name,
  schemas: [20, 45, 100, 3].slice(0, SIZES).map((size) => JSON.stringify(shape(new SeededRandom(at), size))),
}));

test.each(hostile)("$name becomes a grammar within the budget, or is refused as a schema", ({ schemas }) => {
  for (const schema of schemas) {
    const budget = new WorkBudget(WORK);
    try {
      toGrammar(JSON.parse(schema), new GrammarRules(budget));
    } catch (error) {
      expect(error).toMatchObject({ reason: "INVALID_SCHEMA" });
    }
    expect(budget.spent).toBeLessThan(2 * WORK);
  }
});

/** A valid schema that exceeds the budget. */
const COSTLY = JSON.stringify({
  type: "object",
  properties: {
    a: {
      type: "object",
      allOf: Array.from({ length: 60 }, (_, i) => ({
        properties: Object.fromEntries(Array.from({ length: 25 }, (_, j) => [`p${i}_${j}`, {}])),
        additionalProperties: { type: "string" },
      })),
    },
  },
});

describe("a schema beyond the budget", () => {
  const refusal = (promised: Promised, profile = "hermes") => {
    try {
      return grammarOf(wish(COSTLY, promised, profile));
    } catch (error) {
      return error;
    }
  };
  const field = { reason: "INVALID_SCHEMA", message: expect.stringContaining("too costly") };

  test.each(["hermes", "glm-4.7", "deepseek-v3.2"])(
    "a schema beyond the budget is refused with its field if it is strict: %s",
    (profile) => {
      const tool = { ...field, facts: { field: "tools.0.parameters_json_schema", pointer: "" } };
      expect(refusal("strict answer", profile)).toMatchObject(field);
      expect(refusal("strict tool", profile)).toMatchObject(tool);
      expect(refusal("tool that must be called", profile)).toMatchObject(tool);
    },
  );

  test("a schema beyond the budget constrains an answer that is not strict to JSON only", () => {
    expect(refusal("answer")).toMatchObject({ gaveUp: true, text: expect.stringContaining("root ::= ") });
  });

  test.each(["hermes", "glm-4.7", "deepseek-v3.2"])(
    "counts for nothing without `strict` or a demand: %s",
    (profile) => {
      const cheap = grammarOf(wish("{}", "tool beside a strict one", profile));
      expect(refusal("tool beside a strict one", profile)).toEqual(cheap);
    },
  );
});

describe("the schemas that are sent to another thread", () => {
  const beside = (promised: Promised, profile: string) => worthReading(wish(COSTLY, promised, profile));
  const schemas = (input: GrammarInput) => input.tools.map(({ parametersJsonSchema }) => parametersJsonSchema);

  test("the schemas that are sent to another thread are those that the grammar depends on", () => {
    expect(schemas(beside("tool beside a strict one", "glm-4.7"))[0]).toBe("");
    expect(schemas(beside("tool that must be called", "hermes"))[0]).toBe(COSTLY);
  });

  test("the schemas that are sent to another thread have a bounded length, beyond which they are refused", () => {
    const many = (promised: Promised, profile: string) => {
      const input = wish(COSTLY, promised, profile);
      return {
        ...input,
        tools: [...input.tools, ...Array.from({ length: 60 }, () => ({ ...input.tools[0], name: "h" }))],
      } as GrammarInput;
    };
    expect(worthReading(many("tool beside a strict one", "glm-4.7")).tools).toHaveLength(62);
    expect(() => worthReading(many("strict tool", "hermes"))).toThrow("more than 1048576 characters together");
    expect(() => worthReading(many("tool that must be called", "hermes"))).toThrow("Invalid JSON Schema at tools#");
  });
});

describe("the digest of an input", () => {
  const input = (first: string, second: string, answer = "") => ({
    ...wish(answer, "answer", "hermes"),
    tools: [first, second].map((parametersJsonSchema, at) => ({ name: `f${at}`, parametersJsonSchema, strict: true })),
  });

  test("the digest of an input is equal for equal inputs, and different for all others", () => {
    const same = digestOf(input("{}", "true"), "one");
    expect(digestOf(input("{}", "true"), "one")).toBe(same);
    expect(digestOf(input("{}", "true"), "other")).not.toBe(same);
    const others = [
      input("true", "{}"),
      input("{}t", "rue"),
      input("", "{}true"),
      input("", "true", "{}"),
      { ...input("{}", "true"), maxCalls: 1 },
      { ...input("{}", "true"), markers: markersOf("glm-4.7") },
      { ...input("{}", "true"), constraint: undefined },
      { ...input("{}", "true"), tools: input("{}", "true").tools.map((tool) => ({ ...tool, strict: false })) },
    ];
    expect(new Set([same, ...others.map((other) => digestOf(other, "one"))]).size).toBe(1 + others.length);
  });
});

describe("honest schemas", () => {
  const folder = join(ROOT, "test/agent-requests");
  const recorded = readdirSync(folder)
    .filter((file) => file.endsWith(".json"))
    .map((file) => ({ file, tools: toolsIn(JSON.parse(readFileSync(join(folder, file), "utf8")).body) }))
    .filter(({ tools }) => tools.length > 0);

  test.each(recorded)("honest schemas of the tools in $file are all enforced", ({ tools }) => {
    for (const profile of ["hermes", "glm-4.7"]) {
      const input = { ...wish("{}", "tool that must be called", profile), tools };
      expect(grammarOf(input)).toMatchObject({ gaveUp: false, text: expect.stringContaining("root ::= ") });
    }
  });
});

type RecordedTool = { readonly name?: string; readonly [key: string]: unknown };

/** Returns the function tools of a recorded request of any format. */
function toolsIn(request: { readonly tools?: readonly RecordedTool[] | null }): GrammarInput["tools"] {
  return (request.tools ?? []).flatMap((tool) => {
    const { name, parameters, input_schema } = { ...tool, ...(tool.function as object | undefined) } as RecordedTool;
    const schema = parameters ?? input_schema;
    return name && schema ? [{ name, parametersJsonSchema: JSON.stringify(schema), strict: false }] : [];
  });
}
