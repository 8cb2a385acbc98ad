import { strftime } from "./methods.ts";
import type { Quote } from "./operators.ts";
import { Scope } from "./scope.ts";
import { type Program, programOf } from "./statements.ts";
import { callable, dict, integer, list, namespace, text, type Value } from "./values.ts";

export class RaisedByTemplate extends Error {}

export type RenderOptions = {
  /** Writes texts as Python's `repr` does. */
  readonly quote: Quote;
  /** Returns the text in front of an iteration, by its item, of each loop with one variable. */
  readonly mark?: (item: Value) => string;
};

/**
 * Differs from Python's Jinja: rendering continues where Python fails for a member of an undefined value, lists may be
 * changed, and numbers from JSON text keep their form.
 */
export class JinjaTemplate {
  readonly #program: Program;

  /** Throws for invalid Jinja, with the line. */
  constructor(source: string) {
    this.#program = programOf(source);
  }

  /** Renders the template. Throws the template's errors. */
  render(variables: Readonly<Record<string, Value>>, { quote, mark = () => "" }: RenderOptions): string {
    const scope = new Scope({ quote, mark });
    for (const [name, value] of Object.entries(GLOBALS)) scope.set(name, value);
    for (const [name, value] of Object.entries(variables)) scope.set(name, value);
    return this.#program(scope);
  }
}

/** The variables of every template. */
const GLOBALS: Readonly<Record<string, Value>> = {
  dict: callable(({ named }) => dict(new Map(named))),
  namespace: callable(({ named }) => namespace(new Map(named))),
  range: callable((args) => list(range(args.placed.map((_, place) => args.number(place, "", 0))).map(integer))),
  raise_exception: callable((args) => {
    throw new RaisedByTemplate(args.text(0, "message", ""));
  }),
  strftime_now: callable((args) => text(strftime(new Date(), args.text(0, "format", "")))),
};

/** The maximum numbers of a range, the limit of Jinja's sandbox. */
const MAX_RANGE = 100_000;

function range(bounds: readonly number[]): readonly number[] {
  const [start = 0, stop = 0, step = 1] = bounds.length === 1 ? [0, ...bounds] : bounds;
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (!(length <= MAX_RANGE)) throw new Error("a range is too long");
  return Array.from({ length }, (_, index) => start + index * step);
}
