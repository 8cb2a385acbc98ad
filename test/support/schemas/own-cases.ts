import { SeededRandom } from "../seeded-random.ts";

type Schema = Readonly<Record<string, unknown>>;

type Kind = (random: SeededRandom) => {
  readonly schema: Schema;
  readonly valid: readonly unknown[];
  readonly invalid: readonly unknown[];
};

/** The keyword as a constant: linters take an object literal with a `then` for a thenable. */
const THEN = "then";
const WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord"] as const;

/** Returns some of the words, at least one, in a fixed order. */
function some(random: SeededRandom): readonly string[] {
  return WORDS.slice(random.below(3), 4 + random.below(3));
}

const ofStrings = (schema: Schema, valid: readonly string[], invalid: readonly unknown[]): Kind => {
  return () => ({ schema: { type: "string", ...schema }, valid, invalid });
};

const STRINGS: readonly Kind[] = [
  ofStrings({ format: "email", maxLength: 40 }, ["a.b@example.org"], ["unknown", `${"x".repeat(40)}@example.org`]),
  ofStrings({ format: "uri" }, ["https://example.org/a?b=c#d", "urn:isbn:0451450523"], ["no scheme", "//host/path"]),
  ofStrings({ format: "hostname" }, ["example.org", "a-b"], ["-a", "a..b", "a_b"]),
  ofStrings({ format: "ipv6" }, ["::1", "2001:db8::ff00:42:8329"], ["12345::", "1::2::3", "1.2.3.4"]),
  ofStrings({ format: "duration" }, ["P3D", "PT1H30M", "P1Y2M3DT4H"], ["P", "1D", "PT", "P1H"]),
  ofStrings({ format: "date-time", minLength: 20 }, ["2024-02-29T12:30:00Z"], ["2023-02-29T12:30:00Z", "2024-02-29"]),
  ofStrings({ pattern: "^[a-z][a-z0-9-]*$", maxLength: 8 }, ["a", "abc-9"], ["9a", "abcdefghi", "a_b"]),
  ofStrings({ pattern: "[0-9]", minLength: 3 }, ["ab1", "1234"], ["abc", "12"]),
  ofStrings({ allOf: [{ pattern: "^a" }, { pattern: "z$" }] }, ["az", "abcz"], ["a", "za"]),
  ofStrings({ not: { enum: ["none", "null"] } }, ["some", "nonet"], ["none", "null", 1]),
  ofStrings({ not: { pattern: "\\s" } }, ["plain", ""], ["two words", " "]),
];

const NUMBERS: readonly Kind[] = [
  (random) => {
    const low = random.below(9) / 10 + 0.05;
    const schema = { type: "number", minimum: low, maximum: low + 2.5 };
    return { schema, valid: [low, low + 1, low + 2.5], invalid: [low - 0.01, low + 2.6, -1, "1"] };
  },
  (random) => {
    const step = 3 + random.below(20);
    const schema = { type: "integer", multipleOf: step };
    return { schema, valid: [0, step, 7 * step, -step], invalid: [1, step + 1, step * 10 - 1] };
  },
  () => ({ schema: { type: "number", multipleOf: 0.25 }, valid: [0.25, 1.5, 3, -0.75], invalid: [0.3, 1.05, 2.125] }),
  (random) => {
    const low = random.below(100) - 50;
    const schema = { type: "integer", exclusiveMinimum: low, exclusiveMaximum: low + 20, not: { const: low + 5 } };
    return { schema, valid: [low + 1, low + 6, low + 19], invalid: [low, low + 5, low + 20] };
  },
];

const OBJECTS: readonly Kind[] = [
  (random) => {
    const names = some(random);
    const properties = Object.fromEntries(names.map((name) => [name, { type: "integer" }]));
    const schema = { type: "object", properties, required: [names[0]], additionalProperties: { type: "string" } };
    const least = { [names[0] ?? ""]: 1 };
    return { schema, valid: [least, { ...least, more: "x" }], invalid: [{}, { ...least, more: 1 }, { more: "x" }] };
  },
  (random) => {
    const [first = "", second = ""] = some(random);
    const properties = { [first]: { type: "integer" }, [second]: { type: "integer" } };
    const schema = { type: "object", properties, dependentRequired: { [second]: [first] } };
    return { schema, valid: [{}, { [first]: 1 }, { [first]: 1, [second]: 2 }], invalid: [{ [second]: 1 }] };
  },
  (random) => {
    const [first = "", second = "", third = ""] = some(random);
    const properties = { [first]: { type: "boolean" }, [second]: { type: "boolean" }, [third]: { type: "boolean" } };
    const schema = { type: "object", properties, oneOf: [{ required: [first] }, { required: [second] }] };
    const valid = [{ [first]: true }, { [second]: false, [third]: true }];
    return { schema, valid, invalid: [{}, { [third]: true }, { [first]: true, [second]: true }] };
  },
  (random) => {
    const [first = "", second = ""] = some(random);
    const properties = { [first]: { type: "string" } };
    const patternProperties = { "^x-": { type: "integer" } };
    const schema = { type: "object", properties, patternProperties, additionalProperties: false };
    const valid = [{ [first]: "a", "x-a": 1 }, { "x-b": 2, "x-c": 3 }, {}];
    return { schema, valid, invalid: [{ [second]: 1 }, { "x-a": "1" }, { [first]: 1 }, { "y-a": 1 }] };
  },
  (random) => {
    const names = some(random);
    const properties = Object.fromEntries(names.map((name) => [name, { type: "integer" }]));
    const schema = { type: "object", properties, minProperties: 2, maxProperties: 3, additionalProperties: false };
    const ofSize = (size: number) =>
      Object.fromEntries(
        WORDS.filter((n) => names.includes(n))
          .slice(0, size)
          .map((n) => [n, 1]),
      );
    return { schema, valid: [ofSize(2), ofSize(3)], invalid: [{}, ofSize(1), { ...ofSize(1), other: 1 }] };
  },
  (random) => {
    const [kind, other] = [random.pick(WORDS), "zinc"];
    const properties = { kind: { enum: [kind, other] }, size: { type: "integer" }, note: { type: "string" } };
    const rule = {
      if: { properties: { kind: { const: kind } } },
      [THEN]: { required: ["size"] },
      else: { required: ["note"] },
    };
    const schema = { type: "object", properties, required: ["kind"], ...rule };
    const valid = [
      { kind, size: 1 },
      { kind: other, note: "n" },
      { kind, size: 1, note: "n" },
    ];
    return {
      schema,
      valid,
      invalid: [{ kind }, { kind, note: "n" }, { kind: other, size: 1 }, { size: 1, note: "n" }],
    };
  },
  () => {
    const schema = {
      type: "object",
      propertyNames: { pattern: "^[a-z]{2,3}$" },
      additionalProperties: { type: "integer" },
    };
    return { schema, valid: [{}, { ab: 1, abc: 2 }], invalid: [{ a: 1 }, { ab: "1" }, { ABC: 1 }] };
  },
];

const OTHERS: readonly Kind[] = [
  (random) => {
    const items = { enum: [...some(random).slice(0, 3)] };
    const [a, b = ""] = items.enum;
    const schema = { type: "array", items, uniqueItems: true };
    return { schema, valid: [[], [a], [b, a], items.enum], invalid: [[a, a], [a, b, a], ["zinc"]] };
  },
  (random) => {
    const wanted = random.pick(WORDS);
    const schema = { type: "array", items: { type: "string" }, contains: { const: wanted } };
    return { schema, valid: [[wanted], ["a", wanted], [wanted, "b", wanted]], invalid: [[], ["a"], [1, wanted]] };
  },
  () => {
    const branches = [{ type: "integer" }, { type: "number", minimum: 2.5 }];
    return { schema: { oneOf: branches }, valid: [1, 2.75, -4], invalid: [3, 1.5, "1"] };
  },
  (random) => {
    const depth = 1 + random.below(3);
    const node = {
      $anchor: "node",
      type: "object",
      properties: { v: { type: "integer" }, next: { $ref: "#node" } },
      required: ["v"],
    };
    let value: unknown = { v: 0 };
    for (let i = 0; i < depth; i += 1) value = { v: i, next: value };
    return {
      schema: { $ref: "#node", $defs: { node } },
      valid: [value, { v: 1 }],
      invalid: [{}, { v: 1, next: {} }, { v: "1" }],
    };
  },
];

const KINDS: readonly Kind[] = [...STRINGS, ...NUMBERS, ...OBJECTS, ...OTHERS];

/** Embeddings of a schema and its values in a larger schema. A schema with definitions must stay at the root. */
const AROUND: readonly ((schema: Schema) => {
  readonly schema: Schema;
  readonly value: (inner: unknown) => unknown;
})[] = [
  (schema) => ({ schema, value: (inner) => inner }),
  (schema) => ({
    schema: { type: "object", properties: { name: { type: "string" }, inner: schema }, required: ["name", "inner"] },
    value: (inner) => ({ name: "n", inner }),
  }),
  (schema) => ({ schema: { type: "array", items: schema, minItems: 1 }, value: (inner) => [inner] }),
  (schema) => ({
    schema: { $defs: { part: schema }, type: "object", properties: { part: { $ref: "#/$defs/part" } } },
    value: (inner) => ({ part: inner }),
  }),
];

/** Returns `count` schemas of all kinds of keywords, with texts of valid and invalid values; deterministic. */
export function ownCases(count: number): readonly {
  readonly name: string;
  readonly schema: string;
  readonly tests: readonly { readonly text: string; readonly isValid: boolean }[];
}[] {
  return Array.from({ length: count }, (_, at) => {
    const kind = KINDS[at % KINDS.length];
    const around = AROUND[Math.floor(at / KINDS.length) % AROUND.length];
    if (kind === undefined || around === undefined) throw new Error("there are no kinds of cases");
    const { schema, valid, invalid } = kind(new SeededRandom(at));
    const whole = around(schema);
    const text = (value: unknown) => JSON.stringify(whole.value(value));
    const tests = [
      ...valid.map((value) => ({ text: text(value), isValid: true })),
      ...invalid.map((value) => ({ text: text(value), isValid: false })),
    ];
    return { name: `case ${at}`, schema: JSON.stringify(whole.schema), tests };
  });
}
