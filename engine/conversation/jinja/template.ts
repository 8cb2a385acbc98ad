import { isFilter, isTest } from "./filters.ts";
import { PythonInterpreter } from "./interpreter.ts";
import { strftime } from "./methods.ts";
import type { Quote } from "./operators.ts";
import { callable, dict, Environment, isText, NONE, parse, toValue, type Value } from "./values.ts";

export type SyntaxNode = { readonly type: string; readonly [field: string]: unknown };

function isSyntaxNode(value: unknown): value is SyntaxNode {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}

/** Visits inner nodes first; nodes of the types `but` are skipped with their content. */
function walk(value: unknown, visit: (node: SyntaxNode) => void, but: ReadonlySet<string> = NO_TYPES): void {
  if (isSyntaxNode(value) && but.has(value.type)) return;
  for (const part of partsOf(value)) walk(part, visit, but);
  if (isSyntaxNode(value)) visit(value);
}

const NO_TYPES: ReadonlySet<string> = new Set();

function partsOf(value: unknown): Iterable<unknown> {
  if (value instanceof Map || Array.isArray(value)) return value;
  return typeof value === "object" && value !== null ? Object.values(value) : [];
}

export class RaisedByTemplate extends Error {}

/**
 * Differs from Python's Jinja: rendering continues where Python fails for a member of an undefined value, lists may be
 * changed, and numbers from JSON text keep their form.
 */
export class JinjaTemplate {
  readonly #program: SyntaxNode;

  /** With `mark`, each loop iteration begins with the result of that function for its item. Throws as Jinja does. */
  constructor(source: string, mark?: string) {
    this.#program = parse(source);
    const unknown = unknownNames(this.#program);
    if (unknown.length > 0) throw new Error(`there is no ${unknown.join(", no ")}`);
    walk(this.#program, writeOutputs);
    if (mark !== undefined) walk(this.#program, (node) => markLoop(node, mark));
  }

  /** Renders the template. `quote` writes texts as Python's `repr` does. Throws the template's errors. */
  render(variables: Readonly<Record<string, Value>>, quote: Quote): string {
    const environment = new Environment();
    for (const [name, value] of Object.entries(GLOBALS)) environment.setVariable(name, value);
    for (const [name, value] of Object.entries(variables)) environment.setVariable(name, value);
    const rendered = new PythonInterpreter(quote).evaluate(this.#program, environment);
    return isText(rendered) ? rendered.value : "";
  }
}

/** The variables of every template; the library adds `namespace`. */
const GLOBALS: Readonly<Record<string, Value>> = {
  true: toValue(true),
  True: toValue(true),
  false: toValue(false),
  False: toValue(false),
  none: NONE,
  None: NONE,
  dict: callable((args) => args.at(-1) ?? dict(new Map())),
  range: toValue((...bounds: readonly number[]) => range(bounds)),
  raise_exception: toValue((message: unknown) => {
    throw new RaisedByTemplate(String(message));
  }),
  strftime_now: toValue((pattern: string) => strftime(new Date(), pattern)),
};

/** The maximum numbers of a range, the limit of Jinja's sandbox. */
const MAX_RANGE = 100_000;

function range(bounds: readonly number[]): readonly number[] {
  const [start = 0, stop = 0, step = 1] = bounds.length === 1 ? [0, ...bounds] : bounds;
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (!(length <= MAX_RANGE)) throw new Error("a range is too long");
  return Array.from({ length }, (_, index) => start + index * step);
}

const BLOCK_FIELDS = ["body", "alternate", "defaultBlock"];
const STATEMENTS: ReadonlySet<string> = new Set([
  ...["Set", "If", "For", "Macro", "CallStatement", "FilterStatement", "Break", "Continue", "Comment"],
  ...["StringLiteral", "Output"],
]);

function writeOutputs(node: SyntaxNode): void {
  for (const field of BLOCK_FIELDS) {
    const block = node[field];
    if (!Array.isArray(block)) continue;
    const written = block.map((one: SyntaxNode) => {
      if (STATEMENTS.has(one.type)) return one;
      // The node has the library's class, because the library searches macros for nodes of that class only.
      return Object.assign(Object.create(Object.getPrototypeOf(one)), { type: "Output", expression: one });
    });
    Reflect.set(node, field, written);
  }
}

function markLoop(node: SyntaxNode, mark: string): void {
  const { type, loopvar, body } = node;
  if (type !== "For" || !isSyntaxNode(loopvar) || loopvar.type !== "Identifier" || !Array.isArray(body)) return;
  body.unshift({ type: "CallExpression", callee: { type: "Identifier", value: mark }, args: [loopvar] });
}

/** The parts of a template that Jinja resolves only when they are reached. */
const CONDITIONAL: ReadonlySet<string> = new Set(["If", "Ternary", "SelectExpression"]);

function unknownNames(program: unknown): readonly string[] {
  const names = new Set<string>();
  const visit = ({ type, filter, test }: SyntaxNode) => {
    const isOfFilter = type === "FilterExpression" || type === "FilterStatement";
    if (isOfFilter && isSyntaxNode(filter)) {
      const name = filter.type === "CallExpression" && isSyntaxNode(filter.callee) ? filter.callee.value : filter.value;
      if (!isFilter(String(name))) names.add(`filter ${name}`);
    }
    if (type === "TestExpression" && isSyntaxNode(test) && !isTest(String(test.value))) names.add(`test ${test.value}`);
  };
  walk(program, visit, CONDITIONAL);
  return [...names];
}
