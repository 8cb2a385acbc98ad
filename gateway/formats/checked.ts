import type * as z from "zod";
import type { ApiError, FieldPath } from "../errors.ts";
import { isJsonObject, type JsonObject } from "../json/json-text.ts";
import {
  aboveMaximum,
  belowMinimum,
  emptyArray,
  invalidValue,
  missing,
  oneOf,
  tooLong,
  tooMany,
  unknownParameter,
  unsupportedParameter,
  unsupportedValue,
  wrongType,
} from "./field-error.ts";

/*
 * zod itself copies the values and collects every fault of a body: 2 s and 130 MB for a body of 2 MB with 100,000 wrong
 * messages. A check here stops at the first fault, copies nothing and words the fault as the formats do. Null in an
 * optional field is absent.
 */

/** The first fault of a value: the steps that lead to it, innermost first, and the error for its whole path. */
type Fault = { readonly steps: (string | number)[]; readonly error: (path: FieldPath) => ApiError };

type Check = (value: unknown) => Fault | undefined;

/**
 * Returns `value` once it passes `schema`; `path` leads to it. A schema's zod error message becomes part of the error:
 * for an array or a union, the expected type with its article; for other values, why the value is not supported; for a
 * check of a string, the correct form. Throws `ApiError` for the first fault, in the order of the fields.
 */
export function checked<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  path: FieldPath = [],
): z.output<Schema> {
  const found = checkOf(schema)(value);
  if (found) throw found.error([...path, ...found.steps.reverse()]);
  return value as z.output<Schema>;
}

/** Checks the field `key` of `source`, which `path` leads to, by its schema in `of`; else as `checked`. */
export function field<Shape extends z.ZodRawShape, Key extends string & keyof Shape>(
  of: z.ZodObject<Shape>,
  source: JsonObject,
  key: Key,
  path: FieldPath,
): z.output<Shape[Key]> {
  const value = source[key];
  const found = checkOf(of.shape[key] as z.core.$ZodType)(value);
  if (found) throw found.error([...path, key, ...found.steps.reverse()]);
  return value as z.output<Shape[Key]>;
}

/** Makes a schema that describes a value and accepts any: the code that reads the value reports its faults. */
export function unchecked(schema: z.ZodType): z.ZodType<unknown> {
  return schema.catch(undefined);
}

/** Bounded by the number of schemas. */
const CHECKS = new Map<z.core.$ZodType, Check>();

function checkOf(schema: z.core.$ZodType): Check {
  const known = CHECKS.get(schema);
  if (known) return known;
  const check = compiled(schema as z.core.$ZodTypes);
  CHECKS.set(schema, check);
  return check;
}

function compiled({ _zod: { def } }: z.core.$ZodTypes): Check {
  switch (def.type) {
    case "optional":
    case "nullable": {
      const inner = checkOf(def.innerType);
      if (inner === anything || !inner(undefined)) return inner;
      return (value) => (value === undefined || value === null ? undefined : inner(value));
    }
    case "unknown":
    case "catch":
      return anything;
    case "string":
      return text(allOf(rulesOf(def)));
    case "boolean":
      return (value) => (typeof value === "boolean" ? undefined : wrong("a boolean", value));
    case "number":
      return number(allOf("check" in def ? [wholeNumber, ...rulesOf(def)] : rulesOf(def)));
    case "enum":
      return choice(Object.values(def.entries), textOf(def));
    case "literal":
      return choice(def.values, textOf(def));
    case "null":
      return (value) => (isAbsent(value) ? undefined : fault((path) => unsupportedParameter(path, textOf(def))));
    case "array":
      return list(textOf(def) || "an array", allOf(rulesOf(def)), checkOf(def.element));
    case "object":
      return object(def);
    case "union":
      return union(def.options as readonly z.core.$ZodTypes[], textOf(def));
    default:
      throw new Error(`no check for schemas of the type ${def.type}`);
  }
}

const anything: Check = () => undefined;

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function fault(error: Fault["error"]): Fault {
  return { steps: [], error };
}

/** An absent value is reported as missing; an item of a list never is. */
function wrong(expected: string, value: unknown, isMissing: (value: unknown) => boolean = isAbsent): Fault {
  return fault((path) => (isMissing(value) && isText(path.at(-1)) ? missing(path) : wrongType(path, expected, value)));
}

/** Absence of numbers and values of several forms, for which null is a value of another type. */
function isUndefined(value: unknown): boolean {
  return value === undefined;
}

function textOf({ error }: { readonly error?: z.core.$ZodErrorMap<never> | undefined }): string {
  const text = error?.(undefined as never);
  return isText(text) ? text : "";
}

function allOf(rules: readonly Check[]): Check {
  const [first = anything, ...more] = rules;
  if (more.length === 0) return first;
  const rest = allOf(more);
  return (value) => first(value) ?? rest(value);
}

function text(rule: Check): Check {
  return (value) => (typeof value === "string" ? rule(value) : wrong("a string", value));
}

function number(rule: Check): Check {
  return (value) => (Number.isFinite(value) ? rule(value) : wrong("a number", value, isUndefined));
}

function list(expected: string, rule: Check, item: Check): Check {
  return (value) => {
    if (!Array.isArray(value)) return wrong(expected, value);
    const found = rule(value);
    if (found || item === anything) return found;
    for (let index = 0; index < value.length; index += 1) {
      const inItem = item(value[index]);
      if (inItem) return within(index, inItem);
    }
    return undefined;
  };
}

function choice(allowed: readonly unknown[], text: string): Check {
  const words = allowed.filter(isText);
  const [first] = allowed;
  return (value) => {
    if (value === first || allowed.includes(value)) return undefined;
    if (isAbsent(value) || (words.length > 0 && !isText(value))) return wrong("a string", value);
    return fault((path) => (text === "" ? oneOf(path, words) : unsupportedValue(path, text)));
  };
}

function rulesOf({ checks = [] }: { readonly checks?: readonly z.core.$ZodCheck[] | undefined }): readonly Check[] {
  return checks.map(({ _zod }) => ruleOf(_zod.def as z.core.$ZodChecks["_zod"]["def"]));
}

function ruleOf(def: z.core.$ZodChecks["_zod"]["def"]): Check {
  const unless =
    (isRight: (value: never) => boolean, error: (path: FieldPath, value: unknown) => ApiError): Check =>
    (value) =>
      isRight(value as never) ? undefined : fault((path) => error(path, value));
  switch (def.check) {
    case "greater_than": {
      const least = Number(def.value);
      return unless(
        (value: number) => value >= least,
        (path, value) => belowMinimum(path, least, Number.isInteger(value)),
      );
    }
    case "less_than": {
      const most = Number(def.value);
      return unless(
        (value: number) => value <= most,
        (path, value) => aboveMaximum(path, most, Number.isInteger(value)),
      );
    }
    case "min_length":
      return unless(
        (value: string | readonly unknown[]) => value.length >= def.minimum,
        (path, value) => (isText(value) ? invalidValue(path, "expected a non-empty string.") : emptyArray(path)),
      );
    case "max_length":
      return unless(
        (value: string | readonly unknown[]) => !isLonger(value, def.maximum),
        (path, value) => (isText(value) ? tooLong(path, def.maximum) : tooMany(path, def.maximum)),
      );
    case "string_format":
      return unless(
        (value: string) => def.pattern?.test(value) ?? false,
        (path) => invalidValue(path, textOf(def)),
      );
    default:
      throw new Error(`no rule for ${def.check}`);
  }
}

/** A character of a text may take two code units. */
export function isLonger(value: string | readonly unknown[], most: number): boolean {
  return value.length > most && (!isText(value) || value.length > 2 * most || [...value].length > most);
}

const wholeNumber: Check = (value) => {
  if (Number.isSafeInteger(value)) return undefined;
  if (!Number.isInteger(value)) return wrong("an integer", value);
  const { MAX_SAFE_INTEGER, MIN_SAFE_INTEGER } = Number;
  return fault((path) =>
    Number(value) > 0 ? aboveMaximum(path, MAX_SAFE_INTEGER, true) : belowMinimum(path, MIN_SAFE_INTEGER, true),
  );
};

function within(step: string | number, found: Fault | undefined): Fault | undefined {
  found?.steps.push(step);
  return found;
}

function object({ shape, catchall }: z.core.$ZodObjectDef): Check {
  const all = Object.entries(shape).map(([key, schema]) => ({ key, check: checkOf(schema) }));
  const fields = all.filter(({ check }) => check !== anything);
  const isClosed = catchall?._zod.def.type === "never";
  return (value) => {
    if (!isJsonObject(value)) return wrong("an object", value);
    for (const { key, check } of fields) {
      const found = check(value[key]);
      if (found) return within(key, found);
    }
    const isExtra = (key: string) => !Object.hasOwn(shape, key) && !isAbsent(value[key]);
    const extra = isClosed ? Object.keys(value).find(isExtra) : undefined;
    return extra === undefined ? undefined : fault((path) => unknownParameter(extra, path));
  };
}

/** A text, a list, or an object distinguished by its field `type`. */
function union(options: readonly z.core.$ZodTypes[], text: string): Check {
  const checkFor = (types: readonly string[]) => {
    const option = options.find(({ _zod }) => types.includes(_zod.def.type));
    return option && checkOf(option);
  };
  const ofText = checkFor(["string", "enum"]);
  const ofList = checkFor(["array"]);
  const ofObject = objectOf(options);
  return (value) => {
    if (ofText && isText(value)) return ofText(value);
    if (ofList && Array.isArray(value)) return ofList(value);
    return ofObject && isJsonObject(value)
      ? ofObject(value)
      : wrong(text || "an object", value, text ? isUndefined : isAbsent);
  };
}

function objectOf(options: readonly z.core.$ZodTypes[]): Check | undefined {
  const objects = options.filter(({ _zod }) => _zod.def.type === "object");
  if (objects.length === 0) return undefined;
  const byTag = new Map(
    objects.flatMap((option) => {
      const { def } = option._zod as z.core.$ZodObjectInternals;
      const values = [...(def.shape.type?._zod.values ?? [])];
      return values.map((value) => [value, checkOf(option)] as const);
    }),
  );
  const tag = choice([...byTag.keys()], "");
  return (value) => {
    const { type } = value as { readonly type?: string };
    return byTag.get(type)?.(value) ?? within("type", tag(type));
  };
}
