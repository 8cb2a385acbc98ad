import type { CallArguments } from "./call-arguments.ts";
import type { Value } from "./library.ts";
import { contains, isEqual, order } from "./operators.ts";
import {
  isBoolean,
  isDict,
  isFunction,
  isInteger,
  isList,
  isNone,
  isNumber,
  isText,
  isUndefined,
  nameOf,
} from "./values.ts";

type Test = (value: Value, args: CallArguments) => boolean;

const equal: Test = (value, args) => isEqual(value, args.need(0));
const compared =
  (holds: (order: number) => boolean): Test =>
  (value, args) =>
    holds(order(value, args.need(0)));
const less = compared((found) => found < 0);
const atMost = compared((found) => found <= 0);
const more = compared((found) => found > 0);
const atLeast = compared((found) => found >= 0);
const isMany = (value: Value) => isText(value) || isList(value) || isDict(value) || isUndefined(value);

function rest(value: Value, divisor: number): number {
  if (!isNumber(value)) throw new Error(`${nameOf(value)} cannot be divided`);
  return value.value % divisor;
}

const TESTS: Readonly<Record<string, Test>> = {
  boolean: isBoolean,
  // An undefined value is callable in Jinja; the call fails.
  callable: (value) => isFunction(value) || isUndefined(value),
  defined: (value) => !isUndefined(value),
  divisibleby: (value, args) => rest(value, args.number(0, "num", 1)) === 0,
  eq: equal,
  equalto: equal,
  even: (value) => rest(value, 2) === 0,
  false: (value) => isBoolean(value) && !value.value,
  float: ({ type }) => type === "FloatValue",
  ge: atLeast,
  greaterthan: more,
  gt: more,
  in: (value, args) => contains(args.need(0), value),
  integer: isInteger,
  iterable: isMany,
  le: atMost,
  lessthan: less,
  lower: (value) => isText(value) && value.value === value.value.toLowerCase() && /\p{L}/u.test(value.value),
  lt: less,
  mapping: isDict,
  ne: (value, args) => !isEqual(value, args.need(0)),
  none: isNone,
  // Python's booleans are numbers.
  number: (value) => isNumber(value) || isBoolean(value),
  odd: (value) => rest(value, 2) !== 0,
  sameas: (value, args) => value.value === args.need(0).value,
  sequence: isMany,
  string: isText,
  true: (value) => isBoolean(value) && value.value,
  undefined: isUndefined,
  upper: (value) => isText(value) && value.value === value.value.toUpperCase() && /\p{L}/u.test(value.value),
};

export const isTest = (name: string): boolean => Object.hasOwn(TESTS, name);

export function passes(name: string, value: Value, args: CallArguments): boolean {
  const test = isTest(name) ? TESTS[name] : undefined;
  if (!test) throw new Error(`there is no test ${name}`);
  return test(value, args);
}
