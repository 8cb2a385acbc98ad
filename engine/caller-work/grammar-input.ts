import type { Tool } from "../../proto/gen/svc/inference/v1/messages.ts";
import { type OutputGrammar, type OutputGrammarOptions, outputGrammar } from "../grammar/output/output-grammar.ts";
import { argumentTypes } from "../tool-calls/readers/argument-types.ts";

/** The most calls that a grammar without a bound allows: one without an end would let a model call for ever. */
const MAX_CALLS = 32;

/** All that the grammar of an answer depends on: plain data, which can go to another thread. */
export type GrammarInput = Pick<OutputGrammarOptions, "mustCall" | "constraint" | "reasoning" | "markers"> & {
  /** The tools that may be called. */
  readonly tools: readonly Pick<Tool, "name" | "parametersJsonSchema" | "strict">[];
  /** The most calls in one answer; Infinity without a bound. */
  readonly maxCalls: number;
};

/** Returns whether an answer may have a grammar. */
export function needsGrammar({
  tools,
  mustCall,
  constraint,
}: Pick<GrammarInput, "tools" | "mustCall" | "constraint">): boolean {
  return mustCall || constraint?.kind !== undefined || tools.some(({ strict }) => strict);
}

/** Writes the grammar of an answer, as `outputGrammar` does. Throws `EngineError` INVALID_SCHEMA. */
export function grammarOf(input: GrammarInput): OutputGrammar {
  if (!needsGrammar(input)) return { text: undefined, gaveUp: false };
  const { tools } = input;
  const maxCalls = Math.min(input.maxCalls, MAX_CALLS);
  return outputGrammar({ ...input, maxCalls, argumentTypes: argumentTypes(tools) });
}
