import { filtered, passes } from "./filters.ts";
import { methodOf } from "./methods.ts";
import { operated, pythonText, type Quote } from "./operators.ts";
import type { SyntaxNode } from "./template.ts";
import {
  boolean,
  CallArguments,
  callable,
  dict,
  Environment,
  Interpreter,
  integer,
  isDict,
  isFunction,
  isList,
  isNamespace,
  isNumber,
  isText,
  isTrue,
  itemsOf,
  keyOf,
  NONE,
  type Scope,
  text,
  UNDEFINED,
  type Value,
} from "./values.ts";

class LoopControl {
  written = "";
  readonly ends: boolean;

  constructor(ends: boolean) {
    this.ends = ends;
  }
}

/** Overrides the library's interpreter where it differs from Python's Jinja, or lacks filters, tests and methods. */
export class PythonInterpreter extends Interpreter {
  readonly #quote: Quote;

  constructor(quote: Quote) {
    super();
    this.#quote = quote;
  }

  override evaluate(at: SyntaxNode | undefined, scope: Scope): Value {
    const own = at && EVALUATE[at.type];
    return own ? own(this, at, scope) : super.evaluate(at, scope);
  }

  valueAt(node: unknown, scope: Scope): Value {
    return this.evaluate(node as SyntaxNode, scope);
  }

  write(statements: unknown, scope: Scope): string {
    let written = "";
    try {
      for (const statement of nodes(statements)) {
        const value = this.valueAt(statement, scope);
        if (isText(value)) written += value.value;
      }
    } catch (thrown) {
      if (thrown instanceof LoopControl) thrown.written = written + thrown.written;
      throw thrown;
    }
    return written;
  }

  textOf(value: Value): string {
    return pythonText(value, this.#quote);
  }

  operated(operator: string, left: Value, right: Value): Value {
    return operated(operator, left, right, this.#quote);
  }

  filtered(filter: SyntaxNode, value: Value, scope: Scope): Value {
    const isCall = filter.type === "CallExpression";
    const name = String((isCall ? node(filter.callee) : filter).value);
    const args = isCall ? this.#arguments(filter.args, scope) : new CallArguments();
    return filtered(name, value, args, this.#quote);
  }

  /** Returns a member of a value: `value.name` looks up methods first, `value[key]` keys. */
  member(value: Value, key: Value, computed: boolean): Value {
    const method = isText(key) ? methodOf(value, key.value, this.#quote) : undefined;
    const item = itemOf(value, key);
    return (computed ? (item ?? method) : (method ?? item)) ?? UNDEFINED;
  }

  #arguments(args: unknown, scope: Scope): CallArguments {
    const placed: Value[] = [];
    const named = new Map<string, Value>();
    for (const argument of nodes(args)) {
      if (argument.type === "KeywordArgumentExpression") {
        named.set(String(node(argument.key).value), this.valueAt(argument.value, scope));
      } else if (argument.type === "SpreadExpression") {
        placed.push(...itemsOf(this.valueAt(argument.argument, scope)));
      } else placed.push(this.valueAt(argument, scope));
    }
    return new CallArguments(placed, named);
  }
}

type Evaluate = (interpreter: PythonInterpreter, at: SyntaxNode, scope: Scope) => Value;

const LIBRARY = Interpreter.prototype.evaluate;

const EVALUATE: Readonly<Record<string, Evaluate>> = {
  Program: (run, at, scope) => text(run.write(at.body, scope)),
  Output: (run, at, scope) => text(run.textOf(run.valueAt(at.expression, scope))),
  If: (run, at, scope) => {
    const holds = isTrue(run.valueAt(at.test, scope));
    return text(run.write(holds ? at.body : at.alternate, scope));
  },
  For: (run, at, scope) => text(loop(run, at, scope)),
  Break: () => {
    throw new LoopControl(true);
  },
  Continue: () => {
    throw new LoopControl(false);
  },
  Macro: (run, at, scope) => macro(run, at, scope),
  BinaryExpression: (run, at, scope) => binary(run, at, scope),
  FilterExpression: (run, at, scope) => run.filtered(node(at.filter), run.valueAt(at.operand, scope), scope),
  FilterStatement: (run, at, scope) => {
    return run.filtered(node(at.filter), text(run.write(at.body, new Environment(scope))), scope);
  },
  TestExpression: (run, at, scope) => {
    const passed = passes(String(node(at.test).value), run.valueAt(at.operand, scope), new CallArguments());
    return boolean(passed !== at.negate);
  },
  MemberExpression: (run, at, scope) => member(run, at, scope),
  ObjectLiteral: (run, at, scope) => {
    const entries = new Map<string | number, Value>();
    for (const [key, value] of at.value as ReadonlyMap<unknown, unknown>) {
      const name = keyOf(run.valueAt(key, scope));
      if (name === undefined) throw new Error("a key has to be a text or a number");
      entries.set(name, run.valueAt(value, scope));
    }
    return dict(entries);
  },
};

function binary(run: PythonInterpreter, { operator, left, right }: SyntaxNode, scope: Scope): Value {
  const name = String((operator as { readonly value: unknown }).value);
  const first = run.valueAt(left, scope);
  if (name === "and") return isTrue(first) ? run.valueAt(right, scope) : first;
  if (name === "or") return isTrue(first) ? first : run.valueAt(right, scope);
  return run.operated(name, first, run.valueAt(right, scope));
}

/** Runs a loop. Variables set in an iteration end with it, as in Jinja. */
function loop(run: PythonInterpreter, at: SyntaxNode, around: Scope): string {
  const iterable = node(at.iterable);
  const select = iterable.type === "SelectExpression" ? iterable : undefined;
  const all = itemsOf(run.valueAt(select ? select.lhs : iterable, around));
  const scopeOf = (item: Value) => assigned(node(at.loopvar), item, new Environment(around));
  const items = select ? all.filter((item) => isTrue(run.valueAt(select.test, scopeOf(item)))) : all;
  if (items.length === 0) return run.write(at.defaultBlock, around);
  let written = "";
  for (const [index, item] of items.entries()) {
    const scope = scopeOf(item);
    scope.setVariable("loop", dict(rounds(items, index)));
    try {
      written += run.write(at.body, scope);
    } catch (thrown) {
      if (!(thrown instanceof LoopControl)) throw thrown;
      written += thrown.written;
      if (thrown.ends) break;
    }
  }
  return written;
}

function rounds(items: readonly Value[], index: number): Map<string, Value> {
  const { length } = items;
  return new Map([
    ["index", integer(index + 1)],
    ["index0", integer(index)],
    ["revindex", integer(length - index)],
    ["revindex0", integer(length - index - 1)],
    ["first", boolean(index === 0)],
    ["last", boolean(index === length - 1)],
    ["length", integer(length)],
    ["previtem", items[index - 1] ?? UNDEFINED],
    ["nextitem", items[index + 1] ?? UNDEFINED],
    ["cycle", callable((args) => args[index % args.length] ?? UNDEFINED)],
  ]);
}

function assigned(target: SyntaxNode, item: Value, scope: Scope): Scope {
  if (target.type === "Identifier") scope.setVariable(String(target.value), item);
  else {
    const names = nodes(target.value);
    const parts = itemsOf(item);
    if (names.length !== parts.length) throw new Error(`there are ${parts.length} values for ${names.length} names`);
    for (const [index, name] of names.entries()) assigned(name, parts[index] ?? UNDEFINED, scope);
  }
  return scope;
}

/** Defines a macro, whose scope is that of its definition, not that of its calls. */
function macro(run: PythonInterpreter, at: SyntaxNode, around: Scope): Value {
  const name = String(node(at.name).value);
  const defining = new Environment();
  LIBRARY.call(run, at, defining);
  const made = defining.lookupVariable(name);
  if (!isFunction(made)) throw new Error("a macro is no function");
  const called = callable((args, scope) => {
    const own = new Environment(around);
    const caller = scope.variables.get("caller");
    if (caller) own.setVariable("caller", caller);
    return made.value(args, own);
  });
  around.setVariable(name, called);
  return NONE;
}

function member(run: PythonInterpreter, at: SyntaxNode, scope: Scope): Value {
  const property = node(at.property);
  // The library slices lists and texts as Python does.
  if (property.type === "SliceExpression") return LIBRARY.call(run, at, scope);
  const value = run.valueAt(at.object, scope);
  if (at.computed) return run.member(value, run.valueAt(property, scope), true);
  const key = property.type === "IntegerLiteral" ? integer(Number(property.value)) : text(String(property.value));
  return run.member(value, key, false);
}

function itemOf(value: Value, key: Value): Value | undefined {
  if (isDict(value) || isNamespace(value)) {
    const name = keyOf(key);
    return name === undefined ? undefined : value.value.get(name);
  }
  if (!isNumber(key)) return undefined;
  if (isList(value)) return value.value.at(key.value);
  const character = isText(value) ? [...value.value].at(key.value) : undefined;
  return character === undefined ? undefined : text(character);
}

function node(value: unknown): SyntaxNode {
  return value as SyntaxNode;
}

function nodes(value: unknown): readonly SyntaxNode[] {
  return Array.isArray(value) ? value : [];
}
