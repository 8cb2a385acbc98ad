import * as jinja from "@huggingface/jinja";
import type { SyntaxNode } from "./template.ts";

/** Declared here because the library exports neither the classes of its values nor resolvable types. */

export type Value = {
  readonly type: string;
  readonly value: unknown;
  __bool__(): { readonly value: boolean };
};

export type Scope = {
  readonly variables: ReadonlyMap<string, Value>;
  setVariable(name: string, value: Value): Value;
  lookupVariable(name: string): Value;
  set(name: string, input: unknown): Value;
};

type Library = {
  readonly tokenize: (source: string, options: { trim_blocks: boolean; lstrip_blocks: boolean }) => unknown;
  readonly parse: (tokens: unknown) => SyntaxNode;
  readonly Environment: new (around?: Scope) => Scope;
  readonly Interpreter: new () => { evaluate(at: SyntaxNode | undefined, scope: Scope): Value };
};

const library = jinja as unknown as Library;

export const Environment = library.Environment;
export const Interpreter = library.Interpreter;

/** Parses a source with the settings of transformers, and as Python with one kind of newline. Throws for invalid Jinja. */
export function parse(source: string): SyntaxNode {
  return library.parse(library.tokenize(source.replaceAll(/\r\n?/g, "\n"), { trim_blocks: true, lstrip_blocks: true }));
}

type TextValue = Value & { readonly value: string };
export type NumberValue = Value & { readonly value: number; readonly lexeme?: string };
type BooleanValue = Value & { readonly value: boolean };
export type ListValue = Value & { readonly value: Value[] };
/** A mapping; a namespace has the same form but no methods. Keys are texts or numbers. */
export type DictValue = Value & { readonly value: Map<string | number, Value> };
/** The implementation of a function; named arguments are the last argument, and the scope is the caller's. */
type Call = (args: Value[], scope: Scope) => Value;
type FunctionValue = Value & { readonly value: Call };

/** A number of a JSON text, with the digits of the text. */
export class JsonNumber {
  readonly lexeme: string;

  constructor(lexeme: string) {
    this.lexeme = lexeme;
  }
}

type Made<V extends Value> = new (value: V["value"]) => V;

const converted = (input: unknown): Value => new Environment().set("value", input);

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

export const UNDEFINED: Value = new Environment().lookupVariable("");
export const NONE: Value = converted(null);
const TRUE = converted(true);
const FALSE = converted(false);

export const text = (value: string): Value => new Text(value);
export const boolean = (value: boolean): Value => (value ? TRUE : FALSE);
export const integer = (value: number): Value => new Integer(value);
export const float = (value: number): Value => new Float(value);
export const list = (values: Value[]): Value => new List(values);
export const tuple = (values: Value[]): Value => new Tuple(values);
export const dict = (entries: Map<string | number, Value>): Value => new Dict(entries);
export const callable = (call: Call): Value => new Func(call);

export const isText = (value: Value): value is TextValue => value.type === "StringValue";
export const isNumber = (value: Value): value is NumberValue =>
  value.type === "IntegerValue" || value.type === "FloatValue";
export const isInteger = (value: Value): value is NumberValue => value.type === "IntegerValue";
export const isBoolean = (value: Value): value is BooleanValue => value.type === "BooleanValue";
export const isList = (value: Value): value is ListValue => value.type === "ArrayValue" || value.type === "TupleValue";
export const isDict = (value: Value): value is DictValue =>
  value.type === "ObjectValue" || value.type === "KeywordArgumentsValue";
export const isNamespace = (value: Value): value is DictValue => value.type === "NamespaceValue";
export const isFunction = (value: Value): value is FunctionValue => value.type === "FunctionValue";
export const isUndefined = (value: Value): boolean => value.type === "UndefinedValue";
export const isNone = (value: Value): boolean => value.type === "NullValue";
export function isTrue(value: Value): boolean {
  const { value: inside } = value;
  // The library allocates a value for each condition.
  return typeof inside === "object" && inside !== null ? value.__bool__().value : Boolean(inside);
}

export const keyValue = (key: string | number): Value => (typeof key === "string" ? text(key) : integer(key));

export function keyOf(value: Value): string | number | undefined {
  return isText(value) || isNumber(value) ? value.value : undefined;
}

export function itemsOf(value: Value): readonly Value[] {
  if (isList(value)) return value.value;
  if (isDict(value)) return [...value.value.keys()].map(keyValue);
  if (isText(value)) return [...value.value].map(text);
  if (isUndefined(value)) return [];
  throw new Error(`${nameOf(value)} is not iterable`);
}

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

export function toValue(input: unknown): Value {
  if (input instanceof JsonNumber) {
    const { lexeme } = input;
    const number = /[.eE]/.test(lexeme) ? new Float(Number(lexeme)) : new Integer(Number(lexeme));
    return Object.assign(number, { lexeme });
  }
  if (input instanceof Map) return dict(new Map([...input].map(([key, value]) => [key, toValue(value)])));
  if (Array.isArray(input)) return list(input.map(toValue));
  // Fast paths: the library creates a scope with all global names for each conversion.
  if (typeof input === "string") return text(input);
  if (typeof input === "boolean") return boolean(input);
  if (input === null) return NONE;
  if (typeof input !== "object") return converted(input);
  return dict(new Map(Object.entries(input).map(([key, value]) => [key, toValue(value)])));
}

export class CallArguments {
  readonly #placed: readonly Value[];
  readonly #named: ReadonlyMap<string, Value>;

  constructor(placed: readonly Value[] = [], named: ReadonlyMap<string, Value> = new Map()) {
    this.#placed = placed;
    this.#named = named;
  }

  /** Reads the arguments of a function; the library passes named ones as the last argument. */
  static of(args: readonly Value[]): CallArguments {
    const last = args.at(-1);
    if (last?.type !== "KeywordArgumentsValue") return new CallArguments(args);
    return new CallArguments(args.slice(0, -1), last.value as ReadonlyMap<string, Value>);
  }

  get(place: number, name = ""): Value | undefined {
    return this.#placed[place] ?? this.#named.get(name);
  }

  need(place: number, name = ""): Value {
    const value = this.get(place, name);
    if (!value) throw new Error(`the argument ${name || place + 1} is missing`);
    return value;
  }

  text(place: number, name: string, otherwise: string): string {
    const value = this.get(place, name) ?? text(otherwise);
    if (!isText(value)) throw new Error(`the argument ${name || place + 1} has to be a text`);
    return value.value;
  }

  number(place: number, name: string, otherwise: number): number {
    const value = this.get(place, name);
    if (!value) return otherwise;
    if (!isNumber(value) && !isBoolean(value)) throw new Error(`the argument ${name || place + 1} has to be a number`);
    return Number(value.value);
  }

  flag(place: number, name: string): boolean {
    const value = this.get(place, name);
    return value !== undefined && isTrue(value);
  }

  from(place: number): CallArguments {
    return new CallArguments(this.#placed.slice(place), this.#named);
  }
}
