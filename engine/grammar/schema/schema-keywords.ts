export const TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"] as const;
export type SchemaType = (typeof TYPES)[number];

export const SUBSCHEMA_MAPS = ["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"] as const;
export const SUBSCHEMA_LISTS = ["allOf", "anyOf", "oneOf", "prefixItems"] as const;
export const SUBSCHEMAS = [
  "items",
  "additionalItems",
  "unevaluatedItems",
  "additionalProperties",
  "unevaluatedProperties",
  "propertyNames",
  "contains",
  "not",
  "if",
  "then",
  "else",
] as const;

type Keyword = {
  /** The extent to which a grammar enforces the keyword; with `some`, a strict schema with the rest is refused. */
  readonly grammar: "all" | "some" | "none";
  /** The type that the keyword constrains; undefined for any. A schema without `type` is read as one of this type. */
  readonly type?: SchemaType;
  readonly form?: Form;
};
type Form = readonly [words: string, check: (value: unknown) => boolean];

const isNumber = (value: unknown) => typeof value === "number";
const isText = (value: unknown) => typeof value === "string";
const isType = (value: unknown) => TYPES.some((type) => type === value);
const isBoolean = (value: unknown) => typeof value === "boolean";
const isTexts = (value: unknown) => Array.isArray(value) && value.every(isText);

const TEXT: Form = ["must be a string", isText];
const NUMBER: Form = ["must be a number", isNumber];
const BOUND: Form = ["must be a number", (value) => isNumber(value) || isBoolean(value)];
const FLAG: Form = ["must be true or false", isBoolean];
const COUNT: Form = [
  "must be a whole number of at least 0",
  (value) => typeof value === "number" && Number.isInteger(value) && value >= 0,
];

/** The grammar and the validator both read this table; other keywords are ignored, as JSON Schema requires. */
export const KEYWORDS = {
  type: {
    grammar: "all",
    form: [
      `must be one of ${TYPES.join(", ")}, or a list of them`,
      (value) => (Array.isArray(value) ? value.length > 0 && value.every(isType) : isType(value)),
    ],
  },
  nullable: { grammar: "all", form: FLAG },
  enum: {
    grammar: "all",
    form: ["must be a list of at least one value", (value) => Array.isArray(value) && value.length > 0],
  },
  const: { grammar: "all" },
  $ref: { grammar: "some", form: TEXT },
  $dynamicRef: { grammar: "some" },
  $recursiveRef: { grammar: "some" },
  allOf: { grammar: "all" },
  anyOf: { grammar: "all" },
  oneOf: { grammar: "some" },
  not: { grammar: "some" },
  if: { grammar: "some" },
  minimum: { grammar: "some", type: "number", form: NUMBER },
  maximum: { grammar: "some", type: "number", form: NUMBER },
  exclusiveMinimum: { grammar: "some", type: "number", form: BOUND },
  exclusiveMaximum: { grammar: "some", type: "number", form: BOUND },
  multipleOf: {
    grammar: "some",
    type: "number",
    form: ["must be a number above 0", (value) => typeof value === "number" && value > 0],
  },
  minLength: { grammar: "some", type: "string", form: COUNT },
  maxLength: { grammar: "some", type: "string", form: COUNT },
  pattern: {
    grammar: "some",
    type: "string",
    form: ["must be a regular expression", (value) => typeof value === "string" && isExpression(value)],
  },
  format: { grammar: "some", type: "string", form: TEXT },
  items: { grammar: "all", type: "array" },
  prefixItems: { grammar: "all", type: "array" },
  minItems: { grammar: "all", type: "array", form: COUNT },
  maxItems: { grammar: "all", type: "array", form: COUNT },
  uniqueItems: { grammar: "some", type: "array", form: FLAG },
  contains: { grammar: "some", type: "array" },
  unevaluatedItems: { grammar: "none", type: "array" },
  properties: { grammar: "all", type: "object" },
  required: { grammar: "all", type: "object", form: ["must be a list of strings", isTexts] },
  additionalProperties: { grammar: "all", type: "object" },
  patternProperties: { grammar: "some", type: "object" },
  unevaluatedProperties: { grammar: "some", type: "object" },
  propertyNames: { grammar: "some", type: "object" },
  minProperties: { grammar: "some", type: "object", form: COUNT },
  maxProperties: { grammar: "some", type: "object", form: COUNT },
  dependentRequired: { grammar: "some" },
  dependentSchemas: { grammar: "some" },
  dependencies: { grammar: "some" },
} as const satisfies Readonly<Record<string, Keyword>>;

export type KeywordName = keyof typeof KEYWORDS;

const BY_NAME: ReadonlyMap<string, Keyword> = new Map(Object.entries(KEYWORDS));

export function keyword(name: string): Keyword | undefined {
  return BY_NAME.get(name);
}

export const NOT_ENFORCED: readonly string[] = Object.keys(KEYWORDS).filter(
  (name) => keyword(name)?.grammar === "none",
);

/** The maximum length of a pattern, in characters; longer patterns are neither compiled nor enforced. */
const MAX_PATTERN = 1024;
const ESCAPED = /\\(?:[pP]\{[^{}]*\}|.)/gs;

/** The pattern is only compiled, not run. Unicode classes are replaced: compiling them takes longer than the rest. */
function isExpression(pattern: string): boolean {
  if (pattern.length > MAX_PATTERN) return true;
  const cheap = pattern.replaceAll(ESCAPED, (each) => (each.length > 2 ? "\\d" : each));
  for (const flags of ["u", ""]) {
    try {
      new RegExp(cheap, flags);
      return true;
    } catch {
      // Without the flag, more patterns are valid.
    }
  }
  return false;
}
