import * as jinja from "@huggingface/jinja";
import type { SyntaxNode } from "./syntax.ts";

/** Declared here because the library exports neither the classes of its values nor resolvable types. */

export type Value = {
  readonly type: string;
  readonly value: unknown;
  __bool__(): { readonly value: boolean };
};

export type Scope = {
  readonly variables: ReadonlyMap<string, Value>;
  setVariable(name: string, value: Value): Value;
  lookupVariable(name: string): Value;
  set(name: string, input: unknown): Value;
};

type Library = {
  readonly tokenize: (source: string, options: { trim_blocks: boolean; lstrip_blocks: boolean }) => unknown;
  readonly parse: (tokens: unknown) => SyntaxNode;
  readonly Environment: new (around?: Scope) => Scope;
  readonly Interpreter: new () => { evaluate(at: SyntaxNode | undefined, scope: Scope): Value };
};

const library = jinja as unknown as Library;

export const Environment = library.Environment;
export const Interpreter = library.Interpreter;

/** Parses a source with the settings of transformers. Throws for invalid Jinja. */
export function parse(source: string): SyntaxNode {
  return library.parse(library.tokenize(source, { trim_blocks: true, lstrip_blocks: true }));
}
