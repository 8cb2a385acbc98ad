import * as jinja from "@huggingface/jinja";
import type { SyntaxNode } from "./syntax.ts";

/*
 * What is used of the library. It exports neither the classes of its values nor the types of anything in a form that the
 * compiler finds, so that they stand here.
 */

/** A value while a template runs, of one of the library's classes. */
export type Value = {
  /** The name of the class. */
  readonly type: string;
  /** What the value is in JavaScript. */
  readonly value: unknown;
  /** Returns whether the value counts as true. */
  __bool__(): { readonly value: boolean };
};

/** The variables that a place in a template sees. */
export type Scope = {
  /** Those of this scope itself. */
  readonly variables: ReadonlyMap<string, Value>;
  /** Sets a variable of this scope. */
  setVariable(name: string, value: Value): Value;
  /** Returns a variable of this scope or of one around it; the undefined value where there is none. */
  lookupVariable(name: string): Value;
  /** Sets a new variable of this scope to what a JavaScript value is to a template. */
  set(name: string, input: unknown): Value;
};

type Library = {
  readonly tokenize: (source: string, options: { trim_blocks: boolean; lstrip_blocks: boolean }) => unknown;
  readonly parse: (tokens: unknown) => SyntaxNode;
  readonly Environment: new (around?: Scope) => Scope;
  readonly Interpreter: new () => { evaluate(at: SyntaxNode | undefined, scope: Scope): Value };
};

const library = jinja as unknown as Library;

/** The variables of a template, or of a part of it. */
export const Environment = library.Environment;
/** Evaluates a parsed template, part by part. */
export const Interpreter = library.Interpreter;

/** Parses a source under the settings with which transformers has templates run. Throws where it is not Jinja. */
export function parse(source: string): SyntaxNode {
  return library.parse(library.tokenize(source, { trim_blocks: true, lstrip_blocks: true }));
}
