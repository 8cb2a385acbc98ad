import type { Tool } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { type OutputGrammarOptions, outputGrammar } from "../../../grammar/output/output-grammar.ts";
import { argumentTypes } from "../../../tool-calls/readers/argument-types.ts";

/** A grammar without an end would let a model call for ever. */
const MAX_CALLS = 32;

/** All that the grammar of an answer depends on; plain data, that can go to another thread. */
export type GrammarWish = Pick<OutputGrammarOptions, "mustCall" | "constraint" | "reasoning" | "markers"> & {
  readonly tools: readonly Pick<Tool, "name" | "parametersJsonSchema" | "strict">[];
  readonly maxToolCalls: number | undefined;
};

/** Whether there may be a grammar to an answer. */
export function needsGrammar({
  tools,
  mustCall,
  constraint,
}: Pick<GrammarWish, "tools" | "mustCall" | "constraint">): boolean {
  return mustCall || constraint?.kind !== undefined || tools.some(({ strict }) => strict);
}

/** The grammar as GBNF; undefined where nothing is fixed. Throws `EngineError` INVALID_SCHEMA. */
export function grammarOf(wish: GrammarWish): string | undefined {
  if (!needsGrammar(wish)) return undefined;
  const { tools, maxToolCalls: maxCalls = MAX_CALLS } = wish;
  return outputGrammar({ ...wish, maxCalls, argumentTypes: argumentTypes(tools) });
}
