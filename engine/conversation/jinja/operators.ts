import {
  boolean,
  type DictValue,
  float,
  integer,
  isBoolean,
  isDict,
  isList,
  isNamespace,
  isNone,
  isNumber,
  isText,
  isUndefined,
  keyOf,
  list,
  type NumberValue,
  text,
  tuple,
  type Value,
} from "./values.ts";

export type Quote = (text: string) => string;

export type JsonOptions = {
  /** The indentation of one level; undefined for a single line. */
  readonly indent: string | undefined;
  readonly separators: readonly [item: string, key: string];
  readonly sortKeys: boolean;
  readonly ascii: boolean;
};

export const IN_LINE: JsonOptions["separators"] = [", ", ": "];

export function pythonText(value: Value, quote: Quote): string {
  if (isText(value)) return value.value;
  return isUndefined(value) ? "" : pythonRepr(value, quote);
}

function pythonRepr(value: Value, quote: Quote): string {
  if (isText(value)) return quote(value.value);
  if (isNumber(value)) return pythonNumber(value);
  if (isBoolean(value)) return value.value ? "True" : "False";
  if (isNone(value)) return "None";
  if (isUndefined(value)) return "Undefined";
  if (isDict(value) || isNamespace(value)) {
    const entries = [...value.value].map(([key, one]) => {
      return `${typeof key === "string" ? quote(key) : key}: ${pythonRepr(one, quote)}`;
    });
    return `{${entries.join(", ")}}`;
  }
  if (!isList(value)) return `<${value.type}>`;
  const items = value.value.map((one) => pythonRepr(one, quote));
  if (value.type !== "tuple") return `[${items.join(", ")}]`;
  return items.length === 1 ? `(${items[0]},)` : `(${items.join(", ")})`;
}

/** A number from JSON text keeps its form, so that the model sees its own text. */
function pythonNumber({ type, value, lexeme }: NumberValue): string {
  if (lexeme !== undefined) return lexeme;
  return type === "float" ? pythonFloat(value) : BigInt(value).toString();
}

function pythonFloat(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0.0";
  const [digits = "", power = ""] = value.toExponential().split("e");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    return `${digits}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  // JavaScript uses exponents only below 1e-6 and from 1e21.
  const plain = String(value);
  return plain.includes(".") ? plain : `${plain}.0`;
}

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };

export function pythonQuoted(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const body = text.replace(/[\\'"]|[\p{C}\p{Z}]/gu, (character) => {
    if (character === mark) return `\\${mark}`;
    if (character === "'" || character === '"' || character === " ") return character;
    return SHORT[character] ?? escaped(character.codePointAt(0) ?? 0);
  });
  return `${mark}${body}${mark}`;
}

function escaped(point: number): string {
  const digits = point.toString(16);
  if (point < 0x100) return `\\x${digits.padStart(2, "0")}`;
  return point < 0x1_0000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
}

/** Returns the result of Python's `json.dumps`. Throws for values that it cannot write, such as functions. */
export function pythonJson(value: Value, options: JsonOptions, depth = 0): string {
  if (isText(value)) return jsonText(value.value, options);
  if (isNumber(value)) return pythonNumber(value);
  if (isBoolean(value)) return String(value.value);
  if (isNone(value) || isUndefined(value)) return "null";
  if (isDict(value)) return jsonObject(value, options, depth);
  if (!isList(value)) throw new Error(`Object of type ${value.type} is not JSON serializable`);
  const items = value.value.map((one) => pythonJson(one, options, depth + 1));
  return enclosed("[", items, "]", options, depth);
}

function jsonObject(value: DictValue, options: JsonOptions, depth: number): string {
  const entries = [...value.value];
  if (options.sortKeys) entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const items = entries.map(
    ([key, one]) => jsonText(String(key), options) + options.separators[1] + pythonJson(one, options, depth + 1),
  );
  return enclosed("{", items, "}", options, depth);
}

function enclosed(
  open: string,
  items: readonly string[],
  close: string,
  { indent, separators }: JsonOptions,
  depth: number,
): string {
  if (indent === undefined || items.length === 0) return open + items.join(separators[0]) + close;
  const outer = `\n${indent.repeat(depth)}`;
  return `${open}${outer}${indent}${items.join(`${separators[0]}${outer}${indent}`)}${outer}${close}`;
}

function jsonText(text: string, { ascii }: JsonOptions): string {
  const written = JSON.stringify(text);
  if (!ascii) return written;
  return written.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const MAX_REPEATED = 1_000_000;

export function isEqual(left: Value, right: Value): boolean {
  if (left.value === right.value && isNone(left) === isNone(right)) return isUndefined(left) === isUndefined(right);
  if (isList(left) && isList(right)) {
    return left.value.length === right.value.length && left.value.every((one, at) => isSame(one, right.value[at]));
  }
  if (isDict(left) && isDict(right)) {
    const others = right.value;
    return left.value.size === others.size && [...left.value].every(([key, one]) => isSame(one, others.get(key)));
  }
  const numbers = [numberOf(left), numberOf(right)];
  return numbers[0] !== undefined && numbers[0] === numbers[1];
}

function isSame(one: Value, other: Value | undefined): boolean {
  return other !== undefined && isEqual(one, other);
}

/** Negative, 0 or positive, as for a sort. Throws for values without order. */
export function order(left: Value, right: Value): number {
  const [a, b] = isText(left) && isText(right) ? [left.value, right.value] : [numberOf(left), numberOf(right)];
  if (a === undefined || b === undefined) throw unsupported("<", left, right);
  return a < b ? -1 : a > b ? 1 : 0;
}

function contains(container: Value, item: Value): boolean {
  if (isUndefined(container)) return false;
  if (isList(container)) return container.value.some((one) => isEqual(one, item));
  if (isText(container) && isText(item)) return container.value.includes(item.value);
  if (isDict(container)) {
    const key = keyOf(item);
    return key !== undefined && container.value.has(key);
  }
  throw unsupported("in", item, container);
}

export function operated(operator: string, left: Value, right: Value, quote: Quote): Value {
  if (operator === "==") return boolean(isEqual(left, right));
  if (operator === "!=") return boolean(!isEqual(left, right));
  if (operator === "in") return boolean(contains(right, left));
  if (operator === "not in") return boolean(!contains(right, left));
  if (operator === "~") return text(pythonText(left, quote) + pythonText(right, quote));
  const compared = COMPARED[operator];
  if (compared) return boolean(compared(order(left, right)));
  return sumOf(operator, left, right, quote) ?? numeric(operator, left, right);
}

const COMPARED: Readonly<Record<string, (order: number) => boolean>> = {
  "<": (found) => found < 0,
  ">": (found) => found > 0,
  "<=": (found) => found <= 0,
  ">=": (found) => found >= 0,
};

function sumOf(operator: string, left: Value, right: Value, quote: Quote): Value | undefined {
  if (operator === "*" && (isText(left) || isList(left)) && isNumber(right)) return repeated(left, right.value);
  if (operator === "*" && (isText(right) || isList(right)) && isNumber(left)) return repeated(right, left.value);
  if (operator !== "+") return undefined;
  if (isList(left) && isList(right)) {
    const items = left.value.concat(right.value);
    return left.type === "tuple" ? tuple(items) : list(items);
  }
  if (!isText(left) && !isText(right)) return undefined;
  for (const value of [left, right]) if (isUndefined(value) || isNone(value)) throw unsupported("+", left, right);
  // Python accepts texts only, but not all templates are written for it.
  return text(pythonText(left, quote) + pythonText(right, quote));
}

function repeated(value: Value, count: number): Value {
  const times = Math.max(0, Math.floor(count));
  if (isText(value) && value.value.length * times <= MAX_REPEATED) return text(value.value.repeat(times));
  if (isList(value) && value.value.length * times <= MAX_REPEATED) {
    return list(Array.from({ length: times }, () => value.value).flat());
  }
  throw new Error("a repeated value is too long");
}

function numeric(operator: string, left: Value, right: Value): Value {
  const a = numberOf(left);
  const b = numberOf(right);
  const calculate = CALCULATED[operator];
  if (a === undefined || b === undefined || !calculate) throw unsupported(operator, left, right);
  if (b === 0 && ["/", "//", "%"].includes(operator)) throw new Error("division by zero");
  const result = calculate(a, b);
  const isFloat = operator === "/" || isFloating(left) || isFloating(right) || (operator === "**" && b < 0);
  return isFloat ? float(result) : integer(result);
}

const CALCULATED: Readonly<Record<string, (a: number, b: number) => number>> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  "//": (a, b) => Math.floor(a / b),
  "%": (a, b) => a - b * Math.floor(a / b),
  "**": (a, b) => a ** b,
};

const isFloating = ({ type }: Value) => type === "float";

/** Returns the numeric value; in Python booleans are numbers. Undefined for other values. */
function numberOf(value: Value): NumberValue["value"] | undefined {
  if (isBoolean(value)) return value.value ? 1 : 0;
  return isNumber(value) ? value.value : undefined;
}

function unsupported(operator: string, left: Value, right: Value): Error {
  return new Error(`the operator ${operator} takes no ${left.type} and ${right.type}`);
}
