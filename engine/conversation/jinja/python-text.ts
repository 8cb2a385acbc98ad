import type { Value } from "./library.ts";
import {
  type DictValue,
  isBoolean,
  isDict,
  isList,
  isNamespace,
  isNone,
  isNumber,
  isText,
  isUndefined,
  type NumberValue,
  nameOf,
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

export function pythonRepr(value: Value, quote: Quote): string {
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
  if (!isList(value)) return `<${nameOf(value)}>`;
  const items = value.value.map((one) => pythonRepr(one, quote));
  if (value.type !== "TupleValue") return `[${items.join(", ")}]`;
  return items.length === 1 ? `(${items[0]},)` : `(${items.join(", ")})`;
}

/** A number from JSON text keeps its form, so that the model sees its own text. */
function pythonNumber({ type, value, lexeme }: NumberValue): string {
  if (lexeme !== undefined) return lexeme;
  return type === "FloatValue" ? pythonFloat(value) : BigInt(value).toString();
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
  if (!isList(value)) throw new Error(`Object of type ${nameOf(value)} is not JSON serializable`);
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
