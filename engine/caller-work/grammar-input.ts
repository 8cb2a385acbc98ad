import { createHash } from "node:crypto";
import {
  holdsUnpromised,
  type OutputGrammar,
  type OutputGrammarOptions,
  outputGrammar,
} from "../grammar/output/output-grammar.ts";
import type { CallableTool } from "../grammar/output/tool-call-grammar.ts";
import { costlySchema } from "../grammar/schema/schema-document.ts";
import { argumentTypes } from "../tool-calls/argument-types.ts";
import { formOf } from "../tool-calls/forms.ts";

/** The most calls that a grammar without a configured bound allows: a model could otherwise call forever. */
const MAX_CALLS = 32;

export type GrammarInput = Pick<
  OutputGrammarOptions,
  | "mustCall"
  | "mustNotCall"
  | "constraint"
  | "reasoning"
  | "markers"
  | "onlyPromised"
  | "undeclared"
  | "reader"
  | "behind"
> & {
  readonly tools: readonly CallableTool[];
  readonly maxCalls: number;
};

/** Returns whether an output is held to anything: with tools, calls are. */
export function needsGrammar({
  tools,
  mustCall,
  mustNotCall,
  constraint,
  markers: { toolCall },
}: Pick<GrammarInput, "tools" | "mustCall" | "mustNotCall" | "constraint" | "markers">): boolean {
  if (mustCall || constraint?.kind !== undefined) return true;
  const seesTools = tools.length > 0 || mustNotCall === true;
  return seesTools && toolCall !== undefined && formOf(toolCall).markup(toolCall) !== undefined;
}

/** In characters: comparing and copying larger schemas takes time of the main thread. */
const MAX_SCHEMAS_LENGTH = 1024 * 1024;

/** Drops schemas that the grammar does not use; of too large inputs only strict ones remain. Throws `CostlySchema`. */
export function worthReading(input: GrammarInput): GrammarInput {
  const tools = input.tools.map((tool) =>
    tool.strict || input.mustCall ? tool : { ...tool, parametersJsonSchema: "" },
  );
  const needed = { ...input, tools };
  if (lengthOf(needed) <= MAX_SCHEMAS_LENGTH) return needed;
  const promised = onlyPromised(input);
  if (promised === undefined || lengthOf(promised) > MAX_SCHEMAS_LENGTH)
    throw costlySchema("tools#", `and other schemas have more than ${MAX_SCHEMAS_LENGTH} characters together`);
  return promised;
}

/** Returns an input in which only strict schemas count; undefined if no others count anyway. */
export function onlyPromised(input: GrammarInput): GrammarInput | undefined {
  const kind = input.constraint?.kind;
  if (input.onlyPromised || !holdsUnpromised(input) || kind?.$case !== "jsonSchema") return undefined;
  const constraint = { kind: { ...kind, value: { ...kind.value, schemaJson: "" } } };
  return { ...input, constraint, onlyPromised: true };
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
