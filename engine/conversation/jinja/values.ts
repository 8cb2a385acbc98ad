import { Environment, Interpreter, parse, type Scope, type Value } from "./library.ts";
import type { SyntaxNode } from "./syntax.ts";

/** A text. */
export type TextValue = Value & { readonly value: string };
/** A whole number or one with a fraction; `lexeme` is how its JSON text writes it. */
export type NumberValue = Value & { readonly value: number; readonly lexeme?: string };
/** `true` or `false`. */
export type BooleanValue = Value & { readonly value: boolean };
/** A list or a tuple. */
export type ListValue = Value & { readonly value: Value[] };
/** A mapping; a namespace has the same form, but no methods. Keys are texts or numbers. */
export type DictValue = Value & { readonly value: Map<string | number, Value> };
/** What a function does; named arguments are the last one, and the scope is that of the call. */
export type Call = (args: Value[], scope: Scope) => Value;
/** A function. */
export type FunctionValue = Value & { readonly value: Call };

/** A number of a JSON text, which keeps the digits that the text has. */
export class JsonNumber {
  /** The number as the text writes it. */
  readonly lexeme: string;

  constructor(lexeme: string) {
    this.lexeme = lexeme;
  }
}

type Made<V extends Value> = new (value: V["value"]) => V;

const converted = (input: unknown): Value => new Environment().set("value", input);

/** Returns the class of a value. */
function classOf<V extends Value>(value: Value): Made<V> {
  return value.constructor as Made<V>;
}

const Integer = classOf<NumberValue>(converted(0));
const Float = classOf<NumberValue>(converted(0.5));
const Text = classOf<TextValue>(converted(""));
const List = classOf<ListValue>(converted([]));
const Dict = classOf<DictValue>(converted({}));
const Func = classOf<FunctionValue>(converted(() => null));
const Tuple = classOf<ListValue>(
  new Interpreter().evaluate((parse("{{ (1, 2) }}") as unknown as { body: SyntaxNode[] }).body[0], new Environment()),
);

/** The value of a variable that is not set. */
export const UNDEFINED: Value = new Environment().lookupVariable("");
/** Python's `None`. */
export const NONE: Value = converted(null);
const TRUE = converted(true);
const FALSE = converted(false);

/** Makes a text. */
export const text = (value: string): Value => new Text(value);
/** Makes a boolean. */
export const boolean = (value: boolean): Value => (value ? TRUE : FALSE);
/** Makes a whole number. */
export const integer = (value: number): Value => new Integer(value);
/** Makes a number that Python holds as a float, be it whole or not. */
export const float = (value: number): Value => new Float(value);
/** Makes a list. */
export const list = (values: Value[]): Value => new List(values);
/** Makes a tuple. */
export const tuple = (values: Value[]): Value => new Tuple(values);
/** Makes a mapping; Python's keys may be numbers, too. */
export const dict = (entries: Map<string | number, Value>): Value => new Dict(entries);
/** Makes a function; named arguments come as the last one. */
export const callable = (call: Call): Value => new Func(call);

/** Whether a value is a text. */
export const isText = (value: Value): value is TextValue => value.type === "StringValue";
/** Whether a value is a number, which booleans are not here. */
export const isNumber = (value: Value): value is NumberValue =>
  value.type === "IntegerValue" || value.type === "FloatValue";
/** Whether a value is a whole number. */
export const isInteger = (value: Value): value is NumberValue => value.type === "IntegerValue";
/** Whether a value is `true` or `false`. */
export const isBoolean = (value: Value): value is BooleanValue => value.type === "BooleanValue";
/** Whether a value is a list or a tuple. */
export const isList = (value: Value): value is ListValue => value.type === "ArrayValue" || value.type === "TupleValue";
/** Whether a value is a mapping with methods. */
export const isDict = (value: Value): value is DictValue =>
  value.type === "ObjectValue" || value.type === "KeywordArgumentsValue";
/** Whether a value is a namespace, which has attributes only. */
export const isNamespace = (value: Value): value is DictValue => value.type === "NamespaceValue";
/** Whether a value is a function. */
export const isFunction = (value: Value): value is FunctionValue => value.type === "FunctionValue";
/** Whether a value is that of a variable that is not set. */
export const isUndefined = (value: Value): boolean => value.type === "UndefinedValue";
/** Whether a value is `None`. */
export const isNone = (value: Value): boolean => value.type === "NullValue";
/** Returns whether a value counts as true in a condition. */
export function isTrue(value: Value): boolean {
  const { value: inside } = value;
  // The library makes a value of its own for the answer, at each condition of a template.
  return typeof inside === "object" && inside !== null ? value.__bool__().value : Boolean(inside);
}

/** Returns the value of a key, a text or a number. */
export const keyValue = (key: string | number): Value => (typeof key === "string" ? text(key) : integer(key));

/** Returns the key that a value is of a mapping; undefined for what is none. */
export function keyOf(value: Value): string | number | undefined {
  return isText(value) || isNumber(value) ? value.value : undefined;
}

/** Returns the items of what a loop may go through. Throws for what it may not. */
export function itemsOf(value: Value): readonly Value[] {
  if (isList(value)) return value.value;
  if (isDict(value)) return [...value.value.keys()].map(keyValue);
  if (isText(value)) return [...value.value].map(text);
  if (isUndefined(value)) return [];
  throw new Error(`${nameOf(value)} is not iterable`);
}

/** Returns the name of a value's type for messages, as Python calls it. */
export function nameOf({ type }: Value): string {
  return NAMES[type] ?? type;
}

const NAMES: Readonly<Record<string, string>> = {
  StringValue: "str",
  IntegerValue: "int",
  FloatValue: "float",
  BooleanValue: "bool",
  ArrayValue: "list",
  TupleValue: "tuple",
  ObjectValue: "dict",
  KeywordArgumentsValue: "dict",
  NamespaceValue: "namespace",
  FunctionValue: "function",
  NullValue: "None",
  UndefinedValue: "undefined",
};

/**
 * Returns a value for a template: of what JSON has, of maps, of numbers as JSON texts write them (`JsonNumber`) and of
 * functions, which get and give what JavaScript has.
 */
export function toValue(input: unknown): Value {
  if (input instanceof JsonNumber) {
    const { lexeme } = input;
    const number = /[.eE]/.test(lexeme) ? new Float(Number(lexeme)) : new Integer(Number(lexeme));
    return Object.assign(number, { lexeme });
  }
  if (input instanceof Map) return dict(new Map([...input].map(([key, value]) => [key, toValue(value)])));
  if (Array.isArray(input)) return list(input.map(toValue));
  // The library converts in a scope, of which it makes one each time with all that templates may name.
  if (typeof input === "string") return text(input);
  if (typeof input === "boolean") return boolean(input);
  if (input === null) return NONE;
  if (typeof input !== "object") return converted(input);
  return dict(new Map(Object.entries(input).map(([key, value]) => [key, toValue(value)])));
}
