import type { SeededRandom } from "../seeded-random.ts";

type Schema = Readonly<Record<string, unknown>>;
/** Creates a schema; `size` is its approximate number of parts, from a few to some hundreds. */
type Shape = (random: SeededRandom, size: number) => Schema;

const times = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));
const named = <T>(count: number, make: (i: number) => T, prefix = "p"): Readonly<Record<string, T>> =>
  Object.fromEntries(times(count, (i) => [`${prefix}${i}`, make(i)]));
const ref = (name: string) => ({ $ref: `#/$defs/${name}` });
const LISTS = ["allOf", "anyOf", "oneOf"] as const;
const list = (random: SeededRandom) => random.pick(LISTS);

const leaf = (random: SeededRandom): Schema =>
  random.pick<Schema>([
    { type: "string" },
    { type: "null" },
    { type: "integer", minimum: random.below(1000) },
    { not: { const: random.below(3) } },
    { type: "string", minLength: 1 + random.below(50) },
    { const: "x".repeat(random.below(200)) },
    {},
  ]);

/** Returns a schema with definitions; its parameter `a` refers to `first`. */
const withDefs = ($defs: Readonly<Record<string, unknown>>, first: string): Schema => ({
  type: "object",
  properties: { a: ref(first) },
  $defs,
});

/**
 * Schemas of few bytes that cause much work: products of references and alternatives, cycles, and texts that many
 * keywords compare. Each is within a gateway's limits for schemas.
 */
export const HOSTILE_SHAPES: Readonly<Record<string, Shape>> = {
  "references to itself": (random, size) => withDefs({ x: { [list(random)]: times(size, () => ref("x")) } }, "x"),

  "references that double": (random, size) =>
    withDefs(
      { ...named(size, (i) => ({ [list(random)]: [ref(`p${i + 1}`), ref(`p${i + 1}`)] })), [`p${size}`]: {} },
      "p0",
    ),

  "references between all": (random, size) => {
    const count = Math.min(40, 2 + size);
    return withDefs(
      named(count, () => ({ [list(random)]: times(count, (i) => ref(`p${i}`)) })),
      "p0",
    );
  },

  "a chain of references": (random, size) =>
    withDefs(
      {
        ...named(size * 4, (i) => ({ [random.pick(["items", "not", "additionalProperties"])]: ref(`p${i + 1}`) })),
        [`p${size * 4}`]: leaf(random),
      },
      "p0",
    ),

  "circles of different lengths": (random, size) => {
    const circle = (length: number, name: string) =>
      Object.fromEntries(
        times(length, (i) => [
          `${name}${i}`,
          { properties: { n: ref(`${name}${(i + 1) % length}`) }, required: random.below(2) === 0 ? ["n"] : [] },
        ]),
      );
    return {
      type: "object",
      properties: named(Math.min(size, 40), (i) => ({ allOf: [ref(`a${i % size}`), ref(`b${(i * 7) % (size + 1)}`)] })),
      $defs: { ...circle(size, "a"), ...circle(size + 1, "b") },
    };
  },

  "a product of alternatives": (random, size) => ({
    type: "object",
    properties: {
      a: {
        allOf: times(2 + random.below(4), () => ({
          [random.pick(["anyOf", "oneOf"])]: times(size, () => leaf(random)),
        })),
      },
    },
  }),

  "oneOf of many objects": (random, size) => ({
    type: "object",
    properties: named(4, () => ({
      oneOf: times(Math.min(size, 32), (i) => ({
        type: "object",
        properties: { k: { const: i }, ...named(size % 40, () => leaf(random)) },
      })),
    })),
  }),

  "oneOf inside oneOf": (random, size) => {
    const inner = times(1 + random.below(30), (i) => ({ properties: { [`k${i % 3}`]: ref("x") }, required: ["k0"] }));
    return withDefs(
      {
        x: {
          oneOf: [{ oneOf: inner }, { allOf: [{ oneOf: inner }, { oneOf: times(size % 30, () => leaf(random)) }] }],
        },
      },
      "x",
    );
  },

  "many parts of one object": (random, size) => ({
    type: "object",
    allOf: times(Math.min(size, 60), (i) => ({
      properties: named(30, () => leaf(random), `q${random.below(4)}${i}`),
      additionalProperties: leaf(random),
    })),
  }),

  "parts that all hold everywhere": (random, size) =>
    withDefs(
      {
        x: { allOf: times(size, (i) => ref(`d${i}`)), additionalProperties: ref("x") },
        ...named(
          size,
          () => ({ additionalProperties: ref("x"), items: ref("x"), minProperties: random.below(5) }),
          "d",
        ),
      },
      "x",
    ),

  "wide objects": (random, size) => {
    const properties = named(size * 20, () => leaf(random), "n".repeat(1 + random.below(10)));
    return {
      type: "object",
      properties,
      required: random.below(2) === 0 ? Object.keys(properties) : [],
      additionalProperties: random.below(2) === 0,
    };
  },

  "names that begin alike beside any others": (random, size) => ({
    type: "object",
    properties: named(random.below(200), () => ({}), "k".repeat(size)),
    additionalProperties: leaf(random),
  }),

  "a long enum": (random, size) => ({
    type: "object",
    properties: { a: { enum: times(size * 25, (i) => `${"e".repeat(random.below(4))}${(i * 7919) % 10_007}`) } },
  }),

  "an enum of steps": (random, size) => ({
    type: "object",
    properties: { a: { [random.pick(["enum", "enum"])]: times(Math.min(size, 300), (i) => "s".repeat(i)) } },
  }),

  "a large const under many alternatives": (random, size) => {
    const value = random.pick<unknown>([
      "x".repeat(size * 50),
      times(size * 5, (i) => ({ i })),
      named(size * 5, (i) => i),
    ]);
    return withDefs(
      { v: { const: value }, x: { [list(random)]: times(size, () => ({ [list(random)]: [ref("v"), leaf(random)] })) } },
      "x",
    );
  },

  "lengths and counts without end": (random, size) => ({
    type: "object",
    properties: named(size * 4, () =>
      random.pick<Schema>([
        { type: "string", minLength: 1e15 + random.below(1000), maxLength: 1e300 },
        { type: "array", items: { type: "null" }, minItems: random.below(1e9), maxItems: 1e308 },
        { type: "object", additionalProperties: { type: "null" }, minProperties: random.below(1e9) },
      ]),
    ),
  }),

  "bounds of numbers": (random, size) => ({
    type: "object",
    properties: named(size * 6, () => ({
      type: random.pick(["integer", "number"]),
      minimum: -random.below(1e9) * 1e9,
      maximum: random.below(1e9) * 1e9,
    })),
  }),

  patterns: (random, size) => ({
    type: "object",
    properties: named(Math.min(60, size), () => ({ type: "string", pattern: pattern(random, size) })),
  }),

  "formats and patterns of many": (random, size) => ({
    type: "object",
    properties: named(size * 6, () => ({
      type: "string",
      format: random.pick(["date-time", "email", "uuid", "ipv4"]),
      maxLength: 300,
    })),
    required: [],
  }),

  "patterns of names": (random, size) => ({
    type: "object",
    patternProperties: Object.fromEntries(times(1 + random.below(size), () => [pattern(random, 40), leaf(random)])),
    additionalProperties: random.below(2) === 0,
  }),

  "schemas of what depends": (random, size) => ({
    type: "object",
    properties: named(size, () => leaf(random)),
    [random.pick(["dependentSchemas", "dependencies"])]: named(size, (i) => ({
      properties: { [`p${(i + 1) % size}`]: leaf(random) },
      [list(random)]: [leaf(random)],
    })),
    dependentRequired: named(size, (i) => [`p${(i + 3) % size}`]),
    if: { required: ["p0"] },
    ...JSON.parse(`{"then":{"minProperties":${size}}}`),
    propertyNames: { pattern: "^p" },
  }),

  "deep lists": (random, size) => {
    let inner: unknown = leaf(random);
    for (let i = 0; i < Math.min(28, size); i += 1)
      inner = random.pick<unknown>([
        { items: inner },
        { prefixItems: [leaf(random), inner], items: inner },
        { contains: inner },
        { [list(random)]: [inner, inner] },
      ]);
    return { type: "object", properties: { a: inner } };
  },

  "long prefixes of lists": (random, size) => ({
    type: "object",
    properties: {
      a: {
        prefixItems: times(size * 6, () => leaf(random)),
        minItems: random.below(size),
        items: random.below(2) === 0,
      },
    },
  }),

  "many references to one large part": (random, size) => ({
    type: "object",
    properties: named(size * 2, () => ({ [list(random)]: [ref("big"), leaf(random)] })),
    $defs: { big: { type: "object", properties: named(size * 2, () => leaf(random), "b") } },
  }),

  "types that are none": (random) => ({
    type: "object",
    properties: {
      a: random.pick<Schema>([
        { type: [{ toString: 1 }] },
        { type: "constructor" },
        { type: ["__proto__", 7, null] },
        { type: {} },
        { enum: {} },
        { required: 7 },
        { properties: [] },
        { $ref: "#anchor" },
        { $ref: "#/$defs/Missing" },
        { $ref: "#/%E0%A4%A" },
        { $ref: `#${"/a".repeat(20_000)}` },
        { pattern: "(" },
        { pattern: "(".repeat(5000) },
        { minLength: -1 },
        { items: 7 },
      ]),
    },
  }),

  "properties with names of everything": (random) => ({
    type: "object",
    properties: {
      ...JSON.parse('{"__proto__":{"type":"string"},"constructor":{"type":"integer"},"toString":{}}'),
      "": leaf(random),
      "\u0000": leaf(random),
      "a\nb": leaf(random),
      "</arg_key>": leaf(random),
    },
    required: ["hasOwnProperty", "__proto__"],
  }),
};

function pattern(random: SeededRandom, size: number): string {
  const many = Math.max(1, Math.min(200, size));
  return random.pick([
    `^(a+)+${"b?".repeat(many)}$`,
    `^(${times(Math.min(30, many), () => "(a?b?c?)*").join("")})*$`,
    `(((${"x?".repeat(Math.min(many, 60))}){1,9})*){2,9}`,
    `^[${times(many, (i) => String.fromCharCode(0x100 + 2 * i)).join("")}]{0,${random.below(100_000)}}$`,
    `^(${times(many, (i) => `w${(i * 31) % 97}`).join("|")}){1,${1 + random.below(9)}}$`,
    "^((((a{9}){9}){9}){9}){9}$",
    "^(((){9999}){9999}){9999}$",
    `${"(".repeat(15)}a?${")*".repeat(15)}`,
    `^${"\\p{L}".repeat(many)}$`,
    "(?<=a)b|\\1",
    "^[\\u0000-\\uffff]*$",
  ]);
}
