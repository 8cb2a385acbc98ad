import { createHash } from "node:crypto";
import {
  hasUnpromised,
  needsArgumentTypes,
  type OutputGrammar,
  type OutputGrammarOptions,
  outputGrammar,
} from "../grammar/output/output-grammar.ts";
import type { CallableTool } from "../grammar/output/tool-call-grammar.ts";
import { costlySchema } from "../grammar/schema/schema-document.ts";
import { argumentTypes } from "../tool-calls/argument-types.ts";

/** The most calls that a grammar without a configured bound allows: a model could otherwise call forever. */
const MAX_CALLS = 32;

export type GrammarInput = Pick<
  OutputGrammarOptions,
  "mustCall" | "constraint" | "reasoning" | "markers" | "onlyPromised" | "undeclared" | "reader" | "behind"
> & {
  readonly tools: readonly CallableTool[];
  readonly maxCalls: number;
};

export function needsGrammar({
  tools,
  mustCall,
  constraint,
}: Pick<GrammarInput, "tools" | "mustCall" | "constraint">): boolean {
  return mustCall || constraint?.kind !== undefined || tools.some(({ strict }) => strict);
}

/** In characters: comparing and copying larger schemas takes time of the main thread. */
const MAX_SCHEMAS_LENGTH = 1024 * 1024;

/** Drops schemas that the grammar does not use; of too large inputs only strict ones remain. Throws `CostlySchema`. */
export function worthReading(input: GrammarInput): GrammarInput {
  const areAllNeeded = input.mustCall || (needsArgumentTypes(input.markers) && !input.onlyPromised);
  const needed = withSchemas(input, (strict) => strict || areAllNeeded);
  if (lengthOf(needed) <= MAX_SCHEMAS_LENGTH) return needed;
  const promised = onlyPromised(input);
  if (promised === undefined || lengthOf(promised) > MAX_SCHEMAS_LENGTH)
    throw costlySchema("tools#", `and other schemas have more than ${MAX_SCHEMAS_LENGTH} characters together`);
  return promised;
}

/** Returns an input in which only strict schemas count; undefined if no others count anyway. */
export function onlyPromised(input: GrammarInput): GrammarInput | undefined {
  if (input.onlyPromised || !hasUnpromised(input)) return undefined;
  const kind = input.constraint?.kind;
  const isFree = kind?.$case === "jsonSchema" && !kind.value.strict;
  const constraint = isFree ? { kind: { ...kind, value: { ...kind.value, schemaJson: "" } } } : input.constraint;
  return { ...withSchemas(input, (strict) => strict), constraint, onlyPromised: true };
}

function withSchemas(input: GrammarInput, isNeeded: (strict: boolean) => boolean): GrammarInput {
  const tools = input.tools.map((tool) => (isNeeded(tool.strict) ? tool : { ...tool, parametersJsonSchema: "" }));
  return { ...input, tools };
}

function lengthOf({ tools, constraint }: GrammarInput): number {
  const answer = constraint?.kind?.$case === "jsonSchema" ? constraint.kind.value.schemaJson.length : 0;
  return tools.reduce((sum, { parametersJsonSchema }) => sum + parametersJsonSchema.length, answer);
}

/** Equal for equal inputs of the same `isolation`, which names the tenants that may share grammars. */
export function digestOf({ tools, constraint, ...rest }: GrammarInput, isolation: string): string {
  const hash = createHash("sha256");
  const kind = constraint?.kind;
  const answer = kind?.$case === "jsonSchema" ? kind.value.schemaJson : "";
  const schemas = [answer, ...tools.map(({ parametersJsonSchema }) => parametersJsonSchema)];
  // Hashing a megabyte of text directly takes half a millisecond; as a part of JSON it takes six times that.
  const others = {
    isolation,
    ...rest,
    kind: kind?.$case === "jsonSchema" ? { ...kind, value: { ...kind.value, schemaJson: "" } } : kind,
    tools: tools.map((tool) => ({ ...tool, parametersJsonSchema: "" })),
    lengths: schemas.map(({ length }) => length),
  };
  hash.update(JSON.stringify(others));
  for (const schema of schemas) hash.update(schema);
  return hash.digest("base64");
}

export function grammarOf(input: GrammarInput): OutputGrammar {
  if (!needsGrammar(input)) return { text: undefined, gaveUp: false };
  const { tools } = input;
  const maxCalls = Math.min(input.maxCalls, MAX_CALLS);
  return outputGrammar({ ...input, maxCalls, argumentTypes: argumentTypes(tools) });
}
