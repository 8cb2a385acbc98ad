import type { SeededRandom } from "../seeded-random.ts";

type Schema = Readonly<Record<string, unknown>>;

const PATTERNS = ["^[a-z]{1,3}$", "^\\d{2}-\\d{2}$", "^(on|off)$", "^#[0-9A-F]{3,6}$", "^é+\\s?$", "b"];
const FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4"];
const NAMES = ["id", "größe", "a b", "tags", "日本", 'q"uote', "owner", "n", "😀"];

/**
 * Creates a satisfiable schema of keywords allowed with `strict`, with short values. It recurses only where a value
 * need not continue.
 */
export function randomSchema(random: SeededRandom): Schema {
  const root = objectSchema(random, 3);
  return { ...root, $defs: { node: nodeSchema(random) } };
}

function nodeSchema(random: SeededRandom): Schema {
  const next = random.pick<Schema>([
    { $ref: "#/$defs/node" },
    { anyOf: [{ type: "null" }, { $ref: "#/$defs/node" }] },
    { type: "array", items: { $ref: "#/$defs/node" }, maxItems: 2 },
  ]);
  return { type: "object", properties: { v: scalar(random), next }, required: ["v"], additionalProperties: false };
}

function objectSchema(random: SeededRandom, depth: number): Schema {
  const names = NAMES.filter(() => random.below(3) === 0);
  const properties = Object.fromEntries(names.map((name) => [name, anySchema(random, depth - 1)]));
  const required = names.filter(() => random.below(2) === 0);
  const schema = { type: "object", properties, required };
  const whole = random.pick<Schema>([
    schema,
    { ...schema, additionalProperties: false },
    { ...schema, additionalProperties: scalar(random) },
    { type: "object", additionalProperties: scalar(random), minProperties: 1, maxProperties: 2 },
    { type: "object", patternProperties: { "^x-[a-z]$": scalar(random) }, additionalProperties: false },
    { ...schema, anyOf: required.length > 0 ? [{ required: [required[0]] }, { required }] : [{}] },
    { allOf: [{ properties: { first: scalar(random) }, required: ["first"] }, schema] },
  ]);
  return whole;
}

function anySchema(random: SeededRandom, depth: number): Schema {
  if (depth <= 0) return scalar(random);
  const inner = () => anySchema(random, depth - 1);
  switch (random.below(9)) {
    case 0:
      return objectSchema(random, depth);
    case 1:
      return { type: "array", items: inner(), minItems: random.below(2), maxItems: 2 };
    case 2:
      return { type: "array", prefixItems: [scalar(random), inner()], minItems: 1, items: false };
    case 3:
      return { anyOf: [scalar(random), inner()] };
    case 4:
      return {
        oneOf: [
          { type: "null" },
          { type: "string", maxLength: 3 },
          { type: "array", items: scalar(random), maxItems: 1 },
        ],
      };
    case 5:
      return {
        oneOf: ["one", "two"].map((kind) => ({
          type: "object",
          properties: { kind: { const: kind }, value: inner() },
          required: ["kind"],
          additionalProperties: false,
        })),
      };
    case 6:
      return { $ref: "#/$defs/node" };
    default:
      return scalar(random);
  }
}

function scalar(random: SeededRandom): Schema {
  const low = random.below(40) - 20;
  const high = low + 1 + random.below(1000);
  return random.pick<Schema>([
    { type: "integer", minimum: low, maximum: high },
    { type: "integer", exclusiveMinimum: low, exclusiveMaximum: high + 1 },
    { type: "integer", multipleOf: 1, minimum: low },
    { type: "number", minimum: low, exclusiveMaximum: high },
    { type: "boolean" },
    { type: ["string", "null"], maxLength: 4 },
    { type: "string", minLength: 1 + random.below(2), maxLength: 3 + random.below(4) },
    { type: "string", pattern: PATTERNS[random.below(PATTERNS.length)] },
    { type: "string", pattern: "^[a-f]*$", minLength: 2, maxLength: 5 },
    { type: "string", format: FORMATS[random.below(FORMATS.length)] },
    { enum: ["zürich", "東京", "🌧", 7, null, [1, "a"], { a: "ß" }] },
    { const: 'say "ü"\n' },
    { allOf: [{ type: "integer" }, { minimum: low }, { maximum: high }] },
  ]);
}
