import type { Value } from "./library.ts";
import { pythonText, type Quote } from "./python-text.ts";
import {
  boolean,
  float,
  integer,
  isBoolean,
  isDict,
  isList,
  isNone,
  isNumber,
  isText,
  isUndefined,
  keyOf,
  list,
  type NumberValue,
  nameOf,
  text,
  tuple,
} from "./values.ts";

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

export function contains(container: Value, item: Value): boolean {
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
    return left.type === "TupleValue" ? tuple(items) : list(items);
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

const isFloating = ({ type }: Value) => type === "FloatValue";

/** Returns the numeric value; in Python booleans are numbers. Undefined for other values. */
function numberOf(value: Value): NumberValue["value"] | undefined {
  if (isBoolean(value)) return value.value ? 1 : 0;
  return isNumber(value) ? value.value : undefined;
}

function unsupported(operator: string, left: Value, right: Value): Error {
  return new Error(`the operator ${operator} takes no ${nameOf(left)} and ${nameOf(right)}`);
}
