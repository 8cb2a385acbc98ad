import { type Expression, parseExpression } from "../expressions/regular-expression.ts";
import { lengthBounds } from "../expressions/string-pattern.ts";

const LEAST_WITHIN = 16;
const MOST_WITHIN = 4_096;

type Format = {
  readonly written: string;
  readonly allowed?: string;
  /** Returns the form of at most `maxLength` characters. Default: counts are narrowed. */
  readonly within?: (maxLength: number) => string;
};

const DAY = "(?:0[1-9]|1\\d|2[0-8])";
const YEAR_DAY = `(?:(?:0[13578]|1[02])-(?:${DAY}|29|3[01]|30)|(?:0[469]|11)-(?:${DAY}|29|30)|02-${DAY})`;
const FOURS = "(?:0[48]|[2468][048]|[13579][26])";
const DATE = `(?:\\d{4}-${YEAR_DAY}|(?:\\d{2}${FOURS}|${FOURS}00)-02-29)`;
const CLOCK = "(?:[01]\\d|2[0-3]):[0-5]\\d";
const TIME = `${CLOCK}:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-]${CLOCK})`;
const ANY_TIME = `${CLOCK}:(?:[0-5]\\d|60)(?:\\.\\d+)?(?:[Zz]|[+-]${CLOCK})`;
const HEX = "[0-9A-Fa-f]";
const ATOM = "[a-zA-Z0-9_+-]{1,64}";
const LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
const BYTE = "(?:\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])";

const HEXES = `${HEX}{1,4}`;
const IPV6 = [
  `(?:${HEXES}:){7}${HEXES}`,
  `(?:${HEXES}:){1,7}:`,
  ...[6, 5, 4, 3, 2, 1].map((before) => `(?:${HEXES}:){1,${before}}(?::${HEXES}){1,${7 - before}}`),
  `:(?:(?::${HEXES}){1,7}|:)`,
].join("|");
const TIME_PARTS = "(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)";
const DATE_PARTS = "(?:\\d+D|\\d+M(?:\\d+D)?|\\d+Y(?:\\d+M(?:\\d+D)?)?)";
const SCHEME = "[A-Za-z][A-Za-z0-9+.-]*";

/** Expressions of URIs, relative references and short URIs; `others` are allowed characters beyond ASCII. */
function references(others: string): {
  readonly whole: string;
  readonly relative: string;
  readonly within: (max: number) => string;
} {
  const escaped = `%${HEX}{2}`;
  const plain = `A-Za-z0-9._~!$&'()*+,;=${others}`;
  const inPath = `(?:[${plain}:@-]|${escaped})`;
  const host = `(?:(?:[${plain}:-]|${escaped})*@)?(?:[${plain}-]|${escaped})*(?::\\d*)?`;
  const behind = `(?:\\?(?:[${plain}:@/?-]|${escaped})*)?(?:#(?:[${plain}:@/?-]|${escaped})*)?`;
  const segments = `(?:/${inPath}*)*`;
  const start = `//${host}${segments}|/(?:${inPath}+${segments})?`;
  const relative = `(?:${start}|(?:[${plain}@-]|${escaped})+${segments})?${behind}`;
  const within = (max: number) => {
    const ofHost = Math.min(253, Math.floor((max - 12) / (max < 100 ? 1.5 : 3)));
    return `[a-z][a-z0-9]{0,8}://[A-Za-z0-9${others}][A-Za-z0-9.${others}-]{0,${ofHost - 1}}(?:[/?#][${plain}:@/?-]{0,${max - 13 - ofHost}})?`;
  };
  return { whole: `${SCHEME}:(?:${start}|${inPath}+${segments})?${behind}`, relative, within };
}

const URI = references("");
const IRI = references("\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef");
const POINTER = "(?:/(?:[^~/]|~[01])*)*";
const VARIABLE = `(?:[A-Za-z0-9_]|%${HEX}{2})+(?:\\.(?:[A-Za-z0-9_]|%${HEX}{2})+)*(?::[1-9]\\d{0,3}|\\*)?`;
const label = (most: number) => `[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,${most - 2}}[a-zA-Z0-9])?`;
/** Up to 35 characters, the third and fourth no hyphens: those mark internationalised names (RFC 5890). */
const HOST_LABEL = "A(?:A|HA|H{2}A|H(?:AH|-A)H{0,30}A)?".replaceAll("A", "[a-zA-Z0-9]").replaceAll("H", "[a-zA-Z0-9-]");

function mail(atom: number, atoms: number, most: number, labels: number): string {
  const part = `[a-zA-Z0-9_+-]{1,${atom}}`;
  return `${part}(?:\\.${part}){0,${atoms - 1}}@${label(most)}(?:\\.${label(most)}){1,${labels - 1}}`;
}

function shortMail(maxLength: number): string {
  if (maxLength >= 217) return mail(20, 3, 30, 5);
  if (maxLength >= 98) return mail(12, 3, 14, 4);
  return maxLength >= 40
    ? mail(6, 2, 8, 3)
    : mail(Math.max(1, Math.floor(maxLength / 4)), 1, Math.max(2, Math.floor(maxLength / 4)), 2);
}

/** The enforced formats (RFC 3339, 3986, 3987, 4122, 4291, 5321 in its plain form, 6570, 6901). */
const FORMATS: Readonly<Record<string, Format>> = {
  date: { written: DATE },
  time: { written: TIME, allowed: ANY_TIME },
  "date-time": { written: `${DATE}T${TIME}`, allowed: `${DATE}[Tt ]${ANY_TIME}` },
  duration: {
    written: `P(?:${DATE_PARTS}(?:T${TIME_PARTS})?|T${TIME_PARTS}|\\d+W)`,
    allowed: "P(?:\\d+[YMWD])*(?:T(?:\\d+(?:\\.\\d+)?[HMS])+)?",
  },
  uuid: { written: `${HEX}{8}(?:-${HEX}{4}){3}-${HEX}{12}` },
  email: {
    written: `${ATOM}(?:\\.${ATOM}){0,4}@${LABEL}(?:\\.${LABEL}){1,4}`,
    allowed: '(?:[^\\s@]+|"[^"]*")@[^\\s@]+',
    within: shortMail,
  },
  // More or longer labels could exceed the length of a host name.
  hostname: { written: `${HOST_LABEL}(?:\\.${HOST_LABEL}){0,6}`, allowed: `${LABEL}(?:\\.${LABEL})*\\.?` },
  ipv4: { written: `${BYTE}(?:\\.${BYTE}){3}` },
  ipv6: { written: IPV6, allowed: `[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*` },
  uri: { written: URI.whole, allowed: `${SCHEME}:[^\\s<>"{}|^\`\\\\]*`, within: URI.within },
  "uri-reference": { written: `${URI.whole}|${URI.relative}`, allowed: `[^\\s<>"{}|^\`\\\\]*`, within: URI.within },
  iri: { written: IRI.whole, allowed: `${SCHEME}:[^\\s<>"{}|^\`\\\\]*`, within: IRI.within },
  "iri-reference": { written: `${IRI.whole}|${IRI.relative}`, allowed: `[^\\s<>"{}|^\`\\\\]*`, within: IRI.within },
  "uri-template": {
    written: `(?:[A-Za-z0-9._~!$&()*+,;=:@/?#\\[\\]-]|%${HEX}{2}|\\{[+#./;?&]?${VARIABLE}(?:,${VARIABLE})*\\})*`,
    allowed: "(?:[^\\s{}]|\\{[^\\s{}]*\\})*",
  },
  "json-pointer": { written: POINTER },
  "relative-json-pointer": {
    written: `(?:0|[1-9]\\d{0,8})(?:#|${POINTER})`,
    allowed: `(?:0|[1-9]\\d*)(?:#|${POINTER})`,
  },
};

/** Formats of JSON Schema that are not enforced; any other name is an annotation. */
const OTHERS: readonly string[] = ["idn-email", "idn-hostname", "regex"];

const EXPRESSIONS = new Map<string, Expression>();

function expressionOf(key: string, text: () => string): Expression {
  const known = EXPRESSIONS.get(key);
  if (known !== undefined) return known;
  const made = parseExpression(text(), Number.POSITIVE_INFINITY);
  EXPRESSIONS.set(key, made);
  return made;
}

export function isFormat(name: string): boolean {
  return Object.hasOwn(FORMATS, name) || OTHERS.includes(name);
}

export function writtenFormat(name: string, maxLength = Number.POSITIVE_INFINITY): Expression | undefined {
  const format = Object.hasOwn(FORMATS, name) ? FORMATS[name] : undefined;
  if (format === undefined) return undefined;
  const written = expressionOf(name, () => format.written);
  const { within } = format;
  if (within === undefined || maxLength >= (lengthBounds(written).maxLength ?? Number.POSITIVE_INFINITY))
    return written;
  const most = Math.min(maxLength, MOST_WITHIN);
  return most < LEAST_WITHIN ? written : expressionOf(`${name} ${most}`, () => within(most));
}

export function allowedFormat(name: string): Expression | undefined {
  const format = Object.hasOwn(FORMATS, name) ? FORMATS[name] : undefined;
  return format && expressionOf(`any ${name}`, () => format.allowed ?? format.written);
}

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
