import { filtered, isFilter, isTest, passes } from "./filters.ts";
import type { Token, Tokens } from "./lexer.ts";
import { itemOf, memberOf, sliced } from "./members.ts";
import { operated } from "./operators.ts";
import type { Scope } from "./scope.ts";
import {
  boolean,
  CallArguments,
  dict,
  float,
  integer,
  isFunction,
  isTrue,
  itemsOf,
  keyOf,
  list,
  NONE,
  text,
  tuple,
  UNDEFINED,
  type Value,
} from "./values.ts";

/** A part of a template, made once: its value in a scope. Throws what the template raises. */
export type Expression = (scope: Scope) => Value;

type Arguments = (scope: Scope) => CallArguments;

export type Call = { readonly expression: Expression; readonly callee: Expression; readonly args: Arguments };

/** A filter of a value that is given when it runs. */
export type Filter = (value: Value, scope: Scope) => Value;

/** Binary operators of Jinja by how tightly they bind, the loosest first; all group from the left. */
const BINARY: readonly (readonly string[])[] = [["+", "-"], ["~"], ["*", "/", "//", "%"], ["**"]];
const COMPARING = ["==", "!=", "<", ">", "<=", ">=", "in"];

const CONSTANTS: ReadonlyMap<string, Value> = new Map([
  ["true", boolean(true)],
  ["True", boolean(true)],
  ["false", boolean(false)],
  ["False", boolean(false)],
  ["none", NONE],
  ["None", NONE],
]);

/** What ends a test without an argument. */
const BEHIND_TESTS = ["and", "or", "else", "if", "is", "not", "in"];

/** Reads expressions of Jinja into functions. Methods throw for invalid syntax, and for filters and tests there are not. */
export class ExpressionParser {
  protected readonly tokens: Tokens;
  /** The call that was read last. */
  protected lastCall: Call | undefined;
  /** Whether the variable `loop` has been read. */
  protected readsLoop = false;
  #conditional = false;

  constructor(tokens: Tokens) {
    this.tokens = tokens;
  }

  /** Reads one expression, or several with commas between them as a tuple. */
  protected all(read: () => Expression = () => this.one()): Expression {
    const first = read();
    if (!this.tokens.isAt(",")) return first;
    const items = [first];
    while (this.tokens.skip(",") && this.#isExpression()) items.push(read());
    return (scope) => tuple(items.map((item) => item(scope)));
  }

  /** Reads an expression, which may be a choice by a condition. */
  protected one(): Expression {
    let value = this.or();
    while (this.tokens.skip("if")) {
      const chosen = value;
      const [condition, otherwise] = this.conditionally(() => {
        const read = this.or();
        return [read, this.tokens.skip("else") ? this.one() : () => UNDEFINED] as const;
      });
      value = (scope) => (isTrue(condition(scope)) ? chosen(scope) : otherwise(scope));
    }
    return value;
  }

  /** Reads a part that Jinja resolves only when it is reached, so that its filters and tests need not exist. */
  protected conditionally<T>(read: () => T): T {
    const before = this.#conditional;
    this.#conditional = true;
    const result = read();
    this.#conditional = before;
    return result;
  }

  /** Reads an expression that is no choice. */
  protected or(): Expression {
    let left = this.#and();
    while (this.tokens.skip("or")) {
      const [first, second] = [left, this.#and()];
      left = (scope) => {
        const value = first(scope);
        return isTrue(value) ? value : second(scope);
      };
    }
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    while (this.tokens.skip("and")) {
      const [first, second] = [left, this.#not()];
      left = (scope) => {
        const value = first(scope);
        return isTrue(value) ? second(scope) : value;
      };
    }
    return left;
  }

  #not(): Expression {
    if (!this.tokens.skip("not")) return this.#compared();
    const value = this.#not();
    return (scope) => boolean(!isTrue(value(scope)));
  }

  #compared(): Expression {
    const first = this.#binary(0);
    const steps: { readonly operator: string; readonly right: Expression }[] = [];
    for (let operator = this.#comparing(); operator !== undefined; operator = this.#comparing())
      steps.push({ operator, right: this.#binary(0) });
    const [only] = steps;
    if (!only) return first;
    // As in Python, `a < b < c` compares b once with each neighbour.
    return (scope) => {
      let left = first(scope);
      for (const { operator, right } of steps) {
        const value = right(scope);
        if (!isTrue(operated(operator, left, value, scope.rendering.quote))) return boolean(false);
        left = value;
      }
      return boolean(true);
    };
  }

  #comparing(): string | undefined {
    if (!this.tokens.isAt("not")) return this.tokens.skip(...COMPARING);
    if (this.tokens.peek(1).text !== "in") return undefined;
    this.tokens.next();
    return `not ${this.tokens.next().text}`;
  }

  #binary(level: number): Expression {
    const operators = BINARY[level];
    if (!operators) return this.#unary();
    let left = this.#binary(level + 1);
    for (let operator = this.tokens.skip(...operators); operator; operator = this.tokens.skip(...operators)) {
      const [name, first, second] = [operator, left, this.#binary(level + 1)];
      left = (scope) => operated(name, first(scope), second(scope), scope.rendering.quote);
    }
    return left;
  }

  #unary(withFilters = true): Expression {
    const sign = this.tokens.skip("-", "+");
    let value = sign ? this.#signed(sign, this.#unary(false)) : this.#members(this.#primary());
    while (withFilters && this.tokens.isAt("|", "is")) {
      value = this.tokens.next().text === "|" ? this.#filtered(value) : this.#tested(value);
      while (this.tokens.skip("(")) value = this.#called(value);
    }
    return value;
  }

  #signed(sign: string, value: Expression): Expression {
    const zero = integer(0);
    return (scope) => operated(sign, zero, value(scope), scope.rendering.quote);
  }

  #filtered(value: Expression): Expression {
    const filter = this.filter();
    return (scope) => filter(value(scope), scope);
  }

  /** Reads a filter with its arguments. */
  protected filter(): Filter {
    const name = this.tokens.name();
    if (!isFilter(name) && !this.#conditional) throw new Error(`there is no filter ${name}`);
    const args = this.tokens.skip("(") ? this.#arguments() : undefined;
    const none = new CallArguments();
    return (value, scope) => filtered(name, value, args?.(scope) ?? none, scope.rendering.quote);
  }

  #tested(value: Expression): Expression {
    const isNegated = this.tokens.skip("not") !== undefined;
    const name = this.tokens.name();
    if (!isTest(name) && !this.#conditional) throw new Error(`there is no test ${name}`);
    const args = this.#argumentsOfTest();
    return (scope) => boolean(passes(name, value(scope), args(scope)) !== isNegated);
  }

  #argumentsOfTest(): Arguments {
    if (this.tokens.skip("(")) return this.#arguments();
    const { kind } = this.tokens.peek();
    const isArgument = ["name", "number", "string"].includes(kind) || this.tokens.isAt("[", "{");
    const none = new CallArguments();
    if (!isArgument || this.tokens.isAt(...BEHIND_TESTS)) return () => none;
    const only = this.#members(this.#primary());
    return (scope) => new CallArguments([only(scope)]);
  }

  #members(value: Expression): Expression {
    for (;;) {
      if (this.tokens.skip(".")) value = this.#attribute(value);
      else if (this.tokens.skip("[")) value = this.#subscript(value);
      else if (this.tokens.skip("(")) value = this.#called(value);
      else return value;
    }
  }

  #attribute(value: Expression): Expression {
    const { kind, text: name } = this.tokens.peek();
    if (kind === "number") {
      this.tokens.next();
      return (scope) => itemOf(value(scope), Number(name)) ?? UNDEFINED;
    }
    this.tokens.name();
    return (scope) => memberOf(value(scope), name, scope.rendering.quote) ?? UNDEFINED;
  }

  #subscript(value: Expression): Expression {
    const bounds: (Expression | undefined)[] = [];
    do bounds.push(this.tokens.isAt(":", "]") ? undefined : this.all());
    while (this.tokens.skip(":") && bounds.length < 3);
    this.tokens.expect("]");
    const [first] = bounds;
    if (bounds.length > 1) return (scope) => sliced(value(scope), ...bounds.map((bound) => bound?.(scope)));
    if (!first) throw this.tokens.unexpected("a subscript is expected");
    return (scope) => {
      const [of, key] = [value(scope), first(scope)];
      const name = keyOf(key);
      if (name === undefined) return UNDEFINED;
      const found = itemOf(of, name);
      return found ?? (typeof name === "string" ? memberOf(of, name, scope.rendering.quote) : undefined) ?? UNDEFINED;
    };
  }

  #called(callee: Expression): Expression {
    const args = this.#arguments();
    const expression: Expression = (scope) => called(callee(scope), args(scope));
    this.lastCall = { expression, callee, args };
    return expression;
  }

  /** Reads arguments behind their bracket. */
  #arguments(): Arguments {
    const placed: { readonly value: Expression; readonly spreads: boolean }[] = [];
    const named: { readonly name: string; readonly value: Expression }[] = [];
    const spread: Expression[] = [];
    while (!this.tokens.skip(")")) {
      if (this.tokens.skip("**")) spread.push(this.one());
      else if (this.tokens.skip("*")) placed.push({ value: this.one(), spreads: true });
      else if (this.tokens.peek().kind === "name" && this.tokens.peek(1).text === "=") {
        const name = this.tokens.name();
        this.tokens.next();
        named.push({ name, value: this.one() });
      } else placed.push({ value: this.one(), spreads: false });
      if (!this.tokens.isAt(")")) this.tokens.expect(",");
    }
    return (scope) => {
      const values = placed.flatMap(({ value, spreads }) => (spreads ? itemsOf(value(scope)) : [value(scope)]));
      const byName = new Map(named.map(({ name, value }) => [name, value(scope)]));
      for (const values of spread) {
        const mapping = values(scope);
        for (const key of itemsOf(mapping))
          byName.set(String(key.value), itemOf(mapping, String(key.value)) ?? UNDEFINED);
      }
      return new CallArguments(values, byName);
    };
  }

  #primary(): Expression {
    const token = this.tokens.next();
    if (token.kind === "name") return this.#named(token.text);
    if (token.kind === "string") return constant(text(this.#texts(token)));
    if (token.kind === "number") return constant(numberOf(token.text));
    if (token.text === "(" && token.kind === "operator") return this.#bracketed();
    if (token.text === "[") return this.#listed();
    if (token.text === "{") return this.#mapped();
    throw this.tokens.unexpected(`an expression is expected in front of it, not ${token.text}`);
  }

  #named(name: string): Expression {
    const value = CONSTANTS.get(name);
    if (value) return constant(value);
    this.readsLoop ||= name === "loop";
    return (scope) => scope.get(name);
  }

  /** Texts beside each other are one. */
  #texts(first: Token): string {
    let joined = unquoted(first.text);
    while (this.tokens.peek().kind === "string") joined += unquoted(this.tokens.next().text);
    return joined;
  }

  #bracketed(): Expression {
    if (this.tokens.skip(")")) return () => tuple([]);
    const value = this.all();
    this.tokens.expect(")");
    return value;
  }

  #listed(): Expression {
    const items: Expression[] = [];
    while (!this.tokens.skip("]")) {
      items.push(this.one());
      if (!this.tokens.isAt("]")) this.tokens.expect(",");
    }
    return (scope) => list(items.map((item) => item(scope)));
  }

  #mapped(): Expression {
    const entries: { readonly key: Expression; readonly value: Expression }[] = [];
    while (!this.tokens.skip("}")) {
      const key = this.one();
      this.tokens.expect(":");
      entries.push({ key, value: this.one() });
      if (!this.tokens.isAt("}")) this.tokens.expect(",");
    }
    return (scope) => dict(new Map(entries.map(({ key, value }) => [keyIn(key(scope)), value(scope)])));
  }

  #isExpression(): boolean {
    return this.tokens.peek().kind !== "end" && !this.tokens.isAt(")", "]", "}", "=", ":");
  }
}

/** Calls a function of the template or of its variables. Throws for other values. */
export function called(callee: Value, args: CallArguments): Value {
  if (!isFunction(callee)) throw new Error(`a value of the type ${callee.type} is not a function`);
  return callee.value(args);
}

function constant(value: Value): Expression {
  return () => value;
}

function numberOf(digits: string): Value {
  const value = Number(digits.replaceAll("_", ""));
  return /[.eE]/.test(digits) ? float(value) : integer(value);
}

function keyIn(value: Value): string | number {
  const key = keyOf(value);
  if (key === undefined) throw new Error("a key has to be a text or a number");
  return key;
}

const ESCAPES: Readonly<Record<string, string>> = {
  ...{ n: "\n", r: "\r", t: "\t", a: "\x07", b: "\b", f: "\f", v: "\v" },
  ...{ "\\": "\\", "'": "'", '"': '"', "\n": "" },
};

/** Reads a literal of Python; an escape that Python does not know stays as it is. */
function unquoted(literal: string): string {
  const escapes = /\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3})|(.))/gs;
  return literal.slice(1, -1).replace(escapes, (all, ...parts) => {
    const [x, u, wide, octal, letter] = parts as (string | undefined)[];
    const digits = x ?? u ?? wide;
    if (digits !== undefined) return String.fromCodePoint(Number.parseInt(digits, 16));
    if (octal !== undefined) return String.fromCodePoint(Number.parseInt(octal, 8));
    return ESCAPES[letter ?? ""] ?? all;
  });
}
