import { capitalized, escapedForHtml, indented, replaced, stripped, titled } from "./methods.ts";
import { IN_LINE, isEqual, operated, order, pythonJson, pythonText, type Quote } from "./operators.ts";
import {
  type CallArguments,
  float,
  integer,
  isBoolean,
  isDict,
  isFunction,
  isInteger,
  isList,
  isNamespace,
  isNone,
  isNumber,
  isText,
  isTrue,
  isUndefined,
  itemsOf,
  keyValue,
  list,
  text,
  tuple,
  UNDEFINED,
  type Value,
} from "./values.ts";

type Test = (value: Value, args: CallArguments) => boolean;

/** The test of an operator, which compares and writes no text. */
const by =
  (operator: string): Test =>
  (value, args) =>
    isTrue(operated(operator, value, args.need(0), (text) => text));
const isMany = (value: Value) => isText(value) || isList(value) || isDict(value) || isUndefined(value);

function rest(value: Value, divisor: number): number {
  if (!isNumber(value)) throw new Error(`${value.type} cannot be divided`);
  return value.value % divisor;
}

const TESTS: Readonly<Record<string, Test>> = {
  boolean: isBoolean,
  // An undefined value is callable in Jinja; the call fails.
  callable: (value) => isFunction(value) || isUndefined(value),
  defined: (value) => !isUndefined(value),
  divisibleby: (value, args) => rest(value, args.number(0, "num", 1)) === 0,
  eq: by("=="),
  equalto: by("=="),
  even: (value) => rest(value, 2) === 0,
  false: (value) => isBoolean(value) && !value.value,
  float: ({ type }) => type === "float",
  ge: by(">="),
  greaterthan: by(">"),
  gt: by(">"),
  in: by("in"),
  integer: isInteger,
  iterable: isMany,
  le: by("<="),
  lessthan: by("<"),
  lower: (value) => isText(value) && value.value === value.value.toLowerCase() && /\p{L}/u.test(value.value),
  lt: by("<"),
  mapping: isDict,
  ne: by("!="),
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

type Filter = (value: Value, args: CallArguments, quote: Quote) => Value;

export const isFilter = (name: string): boolean => Object.hasOwn(FILTERS, name);

export function filtered(name: string, value: Value, args: CallArguments, quote: Quote): Value {
  const filter = isFilter(name) ? FILTERS[name] : undefined;
  if (!filter) throw new Error(`there is no filter ${name}`);
  return filter(value, args, quote);
}

const onText = (change: (text: string, args: CallArguments) => string): Filter => {
  return (value, args, quote) => text(change(pythonText(value, quote), args));
};

function attributeOf(value: Value, path: Value): Value {
  const steps = isText(path) ? path.value.split(".") : [String(path.value)];
  return steps.reduce<Value>((at, step) => {
    const index = /^\d+$/.test(step) ? Number(step) : undefined;
    if (isDict(at) || isNamespace(at)) return at.value.get(step) ?? UNDEFINED;
    return (isList(at) && index !== undefined ? at.value[index] : undefined) ?? UNDEFINED;
  }, value);
}

function keyed(attribute: Value | undefined, caseSensitive: boolean): (item: Value) => Value {
  return (item) => {
    const value = attribute && !isNone(attribute) ? attributeOf(item, attribute) : item;
    return isText(value) && !caseSensitive ? text(value.value.toLowerCase()) : value;
  };
}

function sorted(value: Value, key: (item: Value) => Value, descending: boolean): Value[] {
  const items = [...itemsOf(value)];
  // Equal items keep their order in both directions, as in Python.
  return items.sort((a, b) => (descending ? order(key(b), key(a)) : order(key(a), key(b))));
}

const keeping = (keeps: boolean, ofMember: boolean): Filter => {
  return (value, args) => {
    const path = ofMember ? args.need(0) : undefined;
    const named = args.get(ofMember ? 1 : 0);
    const rest = args.from(ofMember ? 2 : 1);
    const kept = itemsIn(value).filter((item) => {
      const tested = path ? attributeOf(item, path) : item;
      if (!named) return isTrue(tested) === keeps;
      if (!isText(named)) throw new Error("a test has to be named by a text");
      return passes(named.value, tested, rest) === keeps;
    });
    return list(kept);
  };
};

const extreme = (direction: number): Filter => {
  return (value, args) => {
    const key = keyed(args.get(1, "attribute"), args.flag(0, "case_sensitive"));
    const items = itemsOf(value);
    return items.reduce(
      (best, item) => (order(key(item), key(best)) * direction > 0 ? item : best),
      items[0] ?? UNDEFINED,
    );
  };
};

const forHtml: Filter = onText(escapedForHtml);
const count: Filter = (value) => {
  if (isDict(value)) return integer(value.value.size);
  return integer(isText(value) ? [...value.value].length : itemsOf(value).length);
};
const otherwise: Filter = (value, args) => {
  const isMissing = isUndefined(value) || (args.flag(1, "boolean") && !isTrue(value));
  return isMissing ? (args.get(0, "default_value") ?? text("")) : value;
};

const toJson: Filter = (value, args) => {
  const wide = args.get(1, "indent");
  const indent =
    !wide || isNone(wide) ? undefined : isText(wide) ? wide.value : " ".repeat(args.number(1, "indent", 0));
  const given = args.get(2, "separators");
  const [item = "", key = ""] =
    given && !isNone(given) ? itemsOf(given).map((one) => (isText(one) ? one.value : "")) : [];
  const separators =
    given && !isNone(given) ? ([item, key] as const) : indent === undefined ? IN_LINE : ([",", ": "] as const);
  const [ascii, sortKeys] = [args.flag(0, "ensure_ascii"), args.flag(3, "sort_keys")];
  return text(pythonJson(value, { indent, separators, sortKeys, ascii }));
};

/** Parses a number as Python's `int` and `float` do; undefined for other values. */
function numberIn(value: Value): number | undefined {
  if (isNumber(value) || isBoolean(value)) return Number(value.value);
  if (!isText(value) || !/^\s*[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*$/.test(value.value)) return undefined;
  return Number(value.value.replaceAll("_", ""));
}

const itemsIn = (value: Value) => (isTrue(value) ? itemsOf(value) : []);

const mapped: Filter = (value, args, quote) => {
  const attribute = args.get(-1, "attribute");
  if (attribute) {
    const missing = args.get(-1, "default");
    const found = itemsIn(value).map((item) => attributeOf(item, attribute));
    return list(found.map((one) => (isUndefined(one) && missing ? missing : one)));
  }
  const name = args.text(0, "", "");
  return list(itemsIn(value).map((item) => filtered(name, item, args.from(1), quote)));
};

const unique: Filter = (value, args) => {
  const key = keyed(args.get(1, "attribute"), args.flag(0, "case_sensitive"));
  const seen = new Set<unknown>();
  const composed: Value[] = [];
  const isNew = (found: Value) => {
    if (isList(found) || isDict(found)) return !composed.some((one) => isEqual(one, found)) && composed.push(found) > 0;
    // Booleans equal numbers, as in Python.
    const known = isText(found) || isNone(found) ? found.value : Number(found.value);
    return !seen.has(known) && seen.add(known).size > 0;
  };
  return list(itemsOf(value).filter((item) => isNew(key(item))));
};

const dictSorted: Filter = (value, args) => {
  const by = args.text(1, "by", "key") === "value" ? 1 : 0;
  const pairs = pairsOf(value);
  const key = keyed(integer(by), args.flag(0, "case_sensitive"));
  return list(sorted(pairs, key, args.flag(2, "reverse")));
};

function pairsOf(value: Value): Value {
  if (isUndefined(value)) return list([]);
  if (!isDict(value)) throw new Error(`${value.type} has no items`);
  return list([...value.value].map(([key, one]) => tuple([keyValue(key), one])));
}

const FILTERS: Readonly<Record<string, Filter>> = {
  abs: (value) => (value.type === "float" ? float : integer)(Math.abs(numberIn(value) ?? Number.NaN)),
  capitalize: onText(capitalized),
  count,
  d: otherwise,
  default: otherwise,
  dictsort: dictSorted,
  e: forHtml,
  escape: forHtml,
  first: (value) => itemsOf(value)[0] ?? UNDEFINED,
  float: (value, args) => {
    const number = numberIn(value);
    return number === undefined ? (args.get(0, "default") ?? float(0)) : float(number);
  },
  forceescape: forHtml,
  indent: onText((value, args) => {
    const width = args.get(0, "width");
    const by = width && isText(width) ? width.value : " ".repeat(args.number(0, "width", 4));
    return indented(value, by, { first: args.flag(1, "first"), blank: args.flag(2, "blank") });
  }),
  int: (value, args) => {
    const number = numberIn(value);
    return number === undefined ? (args.get(0, "default") ?? integer(0)) : integer(Math.trunc(number));
  },
  items: (value) => pairsOf(value),
  join: (value, args, quote) => {
    const attribute = args.get(1, "attribute");
    const items = itemsOf(value).map((item) => pythonText(attribute ? attributeOf(item, attribute) : item, quote));
    return text(items.join(args.text(0, "d", "")));
  },
  last: (value) => itemsOf(value).at(-1) ?? UNDEFINED,
  length: count,
  list: (value) => list([...itemsOf(value)]),
  lower: onText((value) => value.toLowerCase()),
  map: mapped,
  max: extreme(1),
  min: extreme(-1),
  reject: keeping(false, false),
  rejectattr: keeping(false, true),
  replace: onText((value, args) => {
    return replaced(value, args.text(0, "old", ""), args.text(1, "new", ""), args.number(2, "count", -1));
  }),
  reverse: (value) => {
    const items = [...itemsOf(value)].reverse();
    return isText(value) ? text(items.map((one) => one.value).join("")) : list(items);
  },
  round: (value, args) => {
    const scale = 10 ** args.number(0, "precision", 0);
    const scaled = (numberIn(value) ?? Number.NaN) * scale;
    const method = args.text(1, "method", "common");
    const rounded =
      method === "ceil" ? Math.ceil(scaled) : method === "floor" ? Math.floor(scaled) : halfToEven(scaled);
    return float(rounded / scale);
  },
  safe: (value, _args, quote) => text(pythonText(value, quote)),
  select: keeping(true, false),
  selectattr: keeping(true, true),
  sort: (value, args) => {
    return list(
      sorted(value, keyed(args.get(2, "attribute"), args.flag(1, "case_sensitive")), args.flag(0, "reverse")),
    );
  },
  string: onText((value) => value),
  sum: (value, args, quote) => {
    const attribute = args.get(0, "attribute");
    const items = itemsOf(value).map((item) => (attribute ? attributeOf(item, attribute) : item));
    return items.reduce((sum, item) => operated("+", sum, item, quote), args.get(1, "start") ?? integer(0));
  },
  title: onText(titled),
  tojson: toJson,
  trim: onText((value, args) => {
    return stripped(value, args.get(0, "chars") ? args.text(0, "chars", "") : undefined, { start: true, end: true });
  }),
  unique,
  upper: onText((value) => value.toUpperCase()),
};

function halfToEven(value: number): number {
  const whole = Math.floor(value);
  if (value - whole !== 0.5) return Math.round(value);
  return whole % 2 === 0 ? whole : whole + 1;
}
