/** A value as Python sees it; `type` is the name of its type there. */
export type Value = TextValue | NumberValue | BooleanValue | ListValue | DictValue | FunctionValue | NoValue;

type TextValue = { readonly type: "str"; readonly value: string };
/** `lexeme` is the form that a JSON text has given it. */
export type NumberValue = { readonly type: "int" | "float"; readonly value: number; readonly lexeme?: string };
type BooleanValue = { readonly type: "bool"; readonly value: boolean };
export type ListValue = { readonly type: "list" | "tuple"; readonly value: Value[] };
/** A mapping; a namespace has the same form but no methods. Keys are texts or numbers. */
export type DictValue = { readonly type: "dict" | "namespace"; readonly value: Map<string | number, Value> };
type FunctionValue = { readonly type: "function"; readonly value: (args: CallArguments) => Value };
type NoValue =
  | { readonly type: "None"; readonly value: null }
  | { readonly type: "undefined"; readonly value: undefined };

/** A number of a JSON text, with the digits of the text. */
export class JsonNumber {
  readonly lexeme: string;

  constructor(lexeme: string) {
    this.lexeme = lexeme;
  }
}

export const UNDEFINED: Value = { type: "undefined", value: undefined };
export const NONE: Value = { type: "None", value: null };
const TRUE: Value = { type: "bool", value: true };
const FALSE: Value = { type: "bool", value: false };

export const text = (value: string): Value => ({ type: "str", value });
export const boolean = (value: boolean): Value => (value ? TRUE : FALSE);
export const integer = (value: number): Value => ({ type: "int", value });
export const float = (value: number): Value => ({ type: "float", value });
export const list = (value: Value[]): Value => ({ type: "list", value });
export const tuple = (value: Value[]): Value => ({ type: "tuple", value });
export const dict = (value: Map<string | number, Value>): Value => ({ type: "dict", value });
export const namespace = (value: Map<string | number, Value>): Value => ({ type: "namespace", value });
export const callable = (value: (args: CallArguments) => Value): Value => ({ type: "function", value });

export const isText = (value: Value): value is TextValue => value.type === "str";
export const isNumber = (value: Value): value is NumberValue => value.type === "int" || value.type === "float";
export const isInteger = (value: Value): value is NumberValue => value.type === "int";
export const isBoolean = (value: Value): value is BooleanValue => value.type === "bool";
export const isList = (value: Value): value is ListValue => value.type === "list" || value.type === "tuple";
export const isDict = (value: Value): value is DictValue => value.type === "dict";
export const isNamespace = (value: Value): value is DictValue => value.type === "namespace";
export const isFunction = (value: Value): value is FunctionValue => value.type === "function";
export const isUndefined = (value: Value): boolean => value.type === "undefined";
export const isNone = (value: Value): boolean => value.type === "None";

export function isTrue(value: Value): boolean {
  if (isList(value)) return value.value.length > 0;
  return isDict(value) ? value.value.size > 0 : Boolean(value.value);
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
  throw new Error(`${value.type} is not iterable`);
}

export function toValue(input: unknown): Value {
  if (typeof input === "string") return text(input);
  if (typeof input === "boolean") return boolean(input);
  if (typeof input === "number") return Number.isInteger(input) ? integer(input) : float(input);
  if (input === undefined) return UNDEFINED;
  if (input === null) return NONE;
  if (input instanceof JsonNumber) {
    const { lexeme } = input;
    return { type: /[.eE]/.test(lexeme) ? "float" : "int", value: Number(lexeme), lexeme };
  }
  if (Array.isArray(input)) return list(input.map(toValue));
  const entries = input instanceof Map ? [...input] : Object.entries(input);
  return dict(new Map(entries.map(([key, value]) => [key, toValue(value)])));
}

export class CallArguments {
  readonly placed: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;

  constructor(placed: readonly Value[] = [], named: ReadonlyMap<string, Value> = new Map()) {
    this.placed = placed;
    this.named = named;
  }

  with(name: string, value: Value): CallArguments {
    return new CallArguments(this.placed, new Map([...this.named, [name, value]]));
  }

  get(place: number, name = ""): Value | undefined {
    return this.placed[place] ?? this.named.get(name);
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
    return new CallArguments(this.placed.slice(place), this.named);
  }
}
