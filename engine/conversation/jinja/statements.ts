import { called, type Expression, ExpressionParser, type Filter } from "./expressions.ts";
import { tokensOf } from "./lexer.ts";
import { pythonText } from "./operators.ts";
import type { Scope } from "./scope.ts";
import {
  boolean,
  callable,
  dict,
  integer,
  isNamespace,
  isTrue,
  itemsOf,
  text,
  tuple,
  UNDEFINED,
  type Value,
} from "./values.ts";

/** The text of a rendering, or of a block that is captured. */
class Written {
  text = "";
}

/** The end of an iteration before that of its statements; undefined where they go on. */
type Flow = "break" | "continue" | undefined;

type Statement = (scope: Scope, out: Written) => Flow;
type Assign = (scope: Scope, value: Value) => void;
type Parameter = { readonly name: string; readonly otherwise: Expression | undefined };

/** A template, made once: writes its text with the variables of a scope. Throws what the template raises. */
export type Program = (scope: Scope) => string;

/**
 * Makes a program of a template. Throws for invalid Jinja, for statements that chat templates have no use for (imports,
 * inheritance), and for filters and tests there are not, outside of conditions.
 */
export function programOf(template: string): Program {
  return new TemplateParser(tokensOf(template)).program();
}

class TemplateParser extends ExpressionParser {
  /** The statement that ended the block that was read last. */
  #end = "";

  readonly #statements: Readonly<Record<string, () => Statement>> = {
    if: () => this.conditionally(() => this.#if()),
    for: () => this.#for(),
    set: () => this.#set(),
    macro: () => this.#macro(),
    call: () => this.#call(),
    filter: () => this.#filterBlock(),
    with: () => this.#with(),
    // Marks the model's own turns for a training.
    generation: () => this.#body("endgeneration"),
    break: () => this.#endOfTag(() => () => "break"),
    continue: () => this.#endOfTag(() => () => "continue"),
  };

  program(): Program {
    const write = this.#block();
    return (scope) => captured(write, scope);
  }

  #endOfTag<T>(read: () => T): T {
    this.tokens.expectEnd();
    return read();
  }

  /** Reads statements up to one of these, and behind its name; without names up to the end of the template. */
  #block(...ends: readonly string[]): Statement {
    const statements: Statement[] = [];
    for (;;) {
      const { kind, text: written } = this.tokens.next();
      if (kind === "eof") {
        if (ends.length > 0) throw this.tokens.unexpected(`${ends.join(" or ")} is missing`);
        return sequence(statements);
      }
      if (kind === "text") statements.push(writing(written));
      else if (written === "{{") statements.push(this.#output());
      else if (this.tokens.isAt(...ends)) {
        this.#end = this.tokens.name();
        return sequence(statements);
      } else statements.push(this.#statement());
    }
  }

  #output(): Statement {
    const value = this.all();
    this.tokens.expectEnd();
    return (scope, out) => {
      out.text += pythonText(value(scope), scope.rendering.quote);
      return undefined;
    };
  }

  #statement(): Statement {
    const name = this.tokens.name();
    const read = Object.hasOwn(this.#statements, name) ? this.#statements[name] : undefined;
    if (!read) throw this.tokens.unexpected(`there is no statement ${name} here`);
    return read();
  }

  /** Reads a block that ends with its own statement, whose tag it ends, too. */
  #body(end: string): Statement {
    return this.#endOfTag(() => {
      const body = this.#block(end);
      this.tokens.expectEnd();
      return body;
    });
  }

  #if(): Statement {
    const condition = this.all();
    const body = this.#endOfTag(() => this.#block("elif", "else", "endif"));
    const otherwise = this.#otherwise("endif");
    return (scope, out) => (isTrue(condition(scope)) ? body(scope, out) : otherwise?.(scope, out));
  }

  /** Reads what follows the block of a condition or loop, up to its end. */
  #otherwise(end: string): Statement | undefined {
    if (this.#end === "elif") return this.#if();
    if (this.#end === "else") return this.#body(end);
    this.tokens.expectEnd();
    return undefined;
  }

  #for(): Statement {
    const { assign, isName } = this.#target();
    this.tokens.expect("in");
    const iterable = this.all(() => this.or());
    const select = this.tokens.skip("if") && this.conditionally(() => this.one());
    const around = this.readsLoop;
    this.readsLoop = false;
    const body = this.#endOfTag(() => this.#block("else", "endfor"));
    const readsLoop = this.readsLoop;
    this.readsLoop = around;
    const otherwise = this.#otherwise("endfor");
    const scopeOf = (item: Value, scope: Scope) => {
      const inner = scope.inner();
      assign(inner, item);
      return inner;
    };
    return (scope, out) => {
      const all = itemsOf(iterable(scope));
      const items = select ? all.filter((item) => isTrue(select(scopeOf(item, scope)))) : all;
      if (items.length === 0) return otherwise?.(scope, out);
      const { mark } = scope.rendering;
      for (const [index, item] of items.entries()) {
        const inner = scopeOf(item, scope);
        if (readsLoop) inner.set("loop", iteration(items, index));
        if (isName) out.text += mark(item);
        if (body(inner, out) === "break") break;
      }
      return undefined;
    };
  }

  /** Reads the variables that items are assigned to. */
  #target(): { readonly assign: Assign; readonly isName: boolean } {
    const assigns = [this.#oneTarget()];
    while (this.tokens.skip(",")) assigns.push(this.#oneTarget());
    const [only] = assigns;
    if (only && assigns.length === 1) return only;
    return { isName: false, assign: (scope, item) => spread(assigns, scope, item) };
  }

  #oneTarget(): { readonly assign: Assign; readonly isName: boolean } {
    if (this.tokens.skip("(")) {
      const target = this.#target();
      this.tokens.expect(")");
      return target;
    }
    const name = this.tokens.name();
    if (!this.tokens.skip(".")) return { isName: true, assign: (scope, value) => scope.set(name, value) };
    const field = this.tokens.name();
    const assign: Assign = (scope, value) => {
      const namespace = scope.get(name);
      if (!isNamespace(namespace)) throw new Error("only a namespace has attributes that can be set");
      namespace.value.set(field, value);
    };
    return { isName: false, assign };
  }

  #set(): Statement {
    const { assign } = this.#target();
    if (this.tokens.skip("=")) {
      const value = this.all();
      this.tokens.expectEnd();
      return (scope) => {
        assign(scope, value(scope));
        return undefined;
      };
    }
    const filters = this.#filters();
    const body = this.#body("endset");
    return (scope) => {
      assign(scope, through(filters, text(captured(body, scope.inner())), scope));
      return undefined;
    };
  }

  #filters(): readonly Filter[] {
    const filters: Filter[] = [];
    while (this.tokens.skip("|")) filters.push(this.filter());
    return filters;
  }

  #filterBlock(): Statement {
    const filters = [this.filter(), ...this.#filters()];
    const body = this.#body("endfilter");
    return (scope, out) => {
      const value = through(filters, text(captured(body, scope.inner())), scope);
      out.text += pythonText(value, scope.rendering.quote);
      return undefined;
    };
  }

  #with(): Statement {
    const assigns: { readonly assign: Assign; readonly value: Expression }[] = [];
    while (this.tokens.peek().kind !== "end") {
      const { assign } = this.#oneTarget();
      this.tokens.expect("=");
      assigns.push({ assign, value: this.one() });
      if (this.tokens.peek().kind !== "end") this.tokens.expect(",");
    }
    const body = this.#body("endwith");
    return (scope, out) => {
      const inner = scope.inner();
      for (const { assign, value } of assigns) assign(inner, value(scope));
      return body(inner, out);
    };
  }

  #macro(): Statement {
    const name = this.tokens.name();
    this.tokens.expect("(");
    const make = this.#function("endmacro", this.#parameters());
    return (scope) => {
      scope.set(name, make(scope));
      return undefined;
    };
  }

  #call(): Statement {
    const parameters = this.tokens.skip("(") ? this.#parameters() : [];
    const expression = this.one();
    const call = this.lastCall;
    if (call?.expression !== expression) throw this.tokens.unexpected("a call is expected in front of it");
    const make = this.#function("endcall", parameters);
    return (scope, out) => {
      const value = called(call.callee(scope), call.args(scope).with("caller", make(scope)));
      out.text += pythonText(value, scope.rendering.quote);
      return undefined;
    };
  }

  #parameters(): readonly Parameter[] {
    const parameters: Parameter[] = [];
    while (!this.tokens.skip(")")) {
      const name = this.tokens.name();
      parameters.push({ name, otherwise: this.tokens.skip("=") ? this.one() : undefined });
      if (!this.tokens.isAt(")")) this.tokens.expect(",");
    }
    return parameters;
  }

  /** Reads a body as a function, whose scope is that of its definition, not that of its calls. */
  #function(end: string, parameters: readonly Parameter[]): Expression {
    const body = this.#body(end);
    const names = new Set(parameters.map(({ name }) => name));
    return (around) =>
      callable((args) => {
        const scope = around.inner();
        for (const [place, { name, otherwise }] of parameters.entries())
          scope.set(name, args.get(place, name) ?? otherwise?.(scope) ?? UNDEFINED);
        const others = [...args.named].filter(([name]) => !names.has(name));
        scope.set("varargs", tuple(args.placed.slice(parameters.length)));
        scope.set("kwargs", dict(new Map(others.filter(([name]) => name !== "caller"))));
        scope.set("caller", args.named.get("caller") ?? UNDEFINED);
        return text(captured(body, scope));
      });
  }
}

function writing(written: string): Statement {
  return (_scope, out) => {
    out.text += written;
    return undefined;
  };
}

function sequence(statements: readonly Statement[]): Statement {
  return (scope, out) => {
    for (const statement of statements) {
      const flow = statement(scope, out);
      if (flow) return flow;
    }
    return undefined;
  };
}

function captured(body: Statement, scope: Scope): string {
  const out = new Written();
  body(scope, out);
  return out.text;
}

function through(filters: readonly Filter[], value: Value, scope: Scope): Value {
  return filters.reduce((filtered, filter) => filter(filtered, scope), value);
}

function spread(assigns: readonly { readonly assign: Assign }[], scope: Scope, item: Value): void {
  const parts = itemsOf(item);
  if (parts.length !== assigns.length) throw new Error(`there are ${parts.length} values for ${assigns.length} names`);
  for (const [index, { assign }] of assigns.entries()) assign(scope, parts[index] ?? UNDEFINED);
}

/** Returns the variable `loop` of an iteration. */
function iteration(items: readonly Value[], index: number): Value {
  const { length } = items;
  return dict(
    new Map([
      ["index", integer(index + 1)],
      ["index0", integer(index)],
      ["revindex", integer(length - index)],
      ["revindex0", integer(length - index - 1)],
      ["first", boolean(index === 0)],
      ["last", boolean(index === length - 1)],
      ["length", integer(length)],
      ["previtem", items[index - 1] ?? UNDEFINED],
      ["nextitem", items[index + 1] ?? UNDEFINED],
      ["cycle", callable(({ placed }) => placed[index % placed.length] ?? UNDEFINED)],
    ]),
  );
}
