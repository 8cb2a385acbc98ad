import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { planAnswer } from "../../../engine/backends/simulator/planned-answer.ts";
import { type GrammarInput, grammarOf, worthReading } from "../../../engine/caller-work/grammar-input.ts";
import { EngineError } from "../../../engine/errors.ts";
import { checkTexts } from "../../../engine/grammar/validation/answer-check.ts";
import { checkCompiledSchemas } from "../../../engine/grammar/validation/compiled-schemas.ts";
import type { OutputMarkers } from "../../../engine/output-parser/markers.ts";
import { loadProfile } from "../../../engine/profiles/profile.ts";
import { argumentTypes } from "../../../engine/tool-calls/readers/argument-types.ts";
import { ApiError } from "../../../gateway/errors.ts";
import { schemaText } from "../../../gateway/formats/json-schema-limits.ts";
import { ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { HOSTILE_SHAPES } from "../../support/schemas/hostile-schema.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { threadCpuMs } from "../../support/thread-cpu.ts";
import type { Row } from "../report/bench-result.ts";
import { median } from "../report/percentile.ts";

const SIZES = [3, 30, 100, 1_000];
const SEED = 1;
const TIMES = 5;
/** The work that is done again: what takes less says nothing. */
const NOTABLE_MS = 2;
const PROFILES = join(import.meta.dirname, "../../../../engine/profiles");
/** The profiles of a quick look: arguments as JSON, between tags, and as elements. */
const SOME_PROFILES = ["hermes", "glm-4.7", "minimax-m3"];
const TEXT_LENGTH = 20_000;

/** What is done with a schema, by who does it: `loop` on the thread that serves everybody, `thread` beside it. */
type Cost = { readonly backend: string; readonly profile: string; loopMs: number; coldMs: number; threadMs: number };

/**
 * Measures what each shape of hostile schemas costs, by backend and profile: the longest turn on the thread that serves
 * everybody, and the work on a thread beside it, first and again. CPU time of the thread, of the costliest size.
 */
export function hostileRows(quick: boolean): readonly Row[] {
  const profiles = quick
    ? SOME_PROFILES
    : readdirSync(PROFILES).flatMap((file) => file.match(/^(.+)\.yaml$/)?.[1] ?? []);
  return Object.keys(HOSTILE_SHAPES).flatMap((shape) => {
    const schemas = SIZES.flatMap((size) => taken(HOSTILE_SHAPES[shape]?.(new SeededRandom(SEED), size)));
    const all = [
      worst("gateway", "", schemas, (schema, cost) =>
        turn(cost, () => schemaText(JSON.parse(schema), [], "function", false)),
      ),
      worst("openai-compatible", "", schemas, besideEngine),
      worst("simulator", "", schemas, simulated),
      worst("all: last look", "", schemas, checked),
      ...profiles.map((profile) => worst("llama", profile, schemas, inProcess(profile))),
    ];
    return all.map((cost) => ({ shape, ...cost }));
  });
}

/** Returns the text of a schema, where a gateway lets it through. */
function taken(schema: object | undefined): readonly string[] {
  try {
    return [schemaText(schema, [], "function", false)];
  } catch (error) {
    if (error instanceof ApiError) return [];
    throw error;
  }
}

function worst(
  backend: string,
  profile: string,
  schemas: readonly string[],
  work: (schema: string, cost: Cost) => void,
): Cost {
  const cost = { backend, profile, loopMs: 0, coldMs: 0, threadMs: 0 };
  for (const schema of schemas) work(schema, cost);
  return cost;
}

function inProcess(profile: string): (schema: string, cost: Cost) => void {
  const { reasoning, toolCall, text } = loadProfile(profile);
  const markers = { ...(reasoning && { reasoning }), ...(toolCall && { toolCall }), ...(text && { text }) };
  return (schema, cost) => {
    const key = Object.keys(JSON.parse(schema).properties ?? {})[0] ?? "a";
    turn(cost, () => argumentTypes([{ name: "f", parametersJsonSchema: schema }])("f", [key]));
    for (const input of inputsOf(schema, markers)) {
      let worth = input;
      turn(cost, () => {
        worth = worthReading(input);
        createHash("sha256").update(JSON.stringify(worth)).digest();
      });
      beside(cost, () => grammarOf(worth));
    }
  };
}

/** The ways to ask: a strict answer, a strict tool, a call that has to come. */
function inputsOf(schemaJson: string, markers: OutputMarkers): readonly GrammarInput[] {
  const common = { markers, maxCalls: 3, reasoning: "none" } as const;
  const tool = (strict: boolean) => [{ name: "f", parametersJsonSchema: schemaJson, strict }];
  const kind = { $case: "jsonSchema", value: { name: "x", schemaJson, strict: true } } as const;
  return [
    { ...common, tools: [], mustCall: false, constraint: { kind } },
    { ...common, tools: tool(true), mustCall: false, constraint: undefined },
    { ...common, tools: tool(false), mustCall: true, constraint: undefined },
  ];
}

function besideEngine(text: string, cost: Cost): void {
  beside(cost, () => checkCompiledSchemas([{ text, at: "schema" }]));
}

function simulated(parametersJsonSchema: string, cost: Cost): void {
  const tools = [{ name: "f", description: "", parametersJsonSchema, strict: true, cacheBreakpoint: undefined }];
  const toolChoice = { mode: ToolChoiceMode.REQUIRED, name: "", disableParallelCalls: false, allowedNames: [] };
  const request = generateRequest({ tools, toolChoice });
  turn(cost, () => planAnswer(request, "prompt", { seed: SEED, answerTokens: { min: 1, max: 2 } }));
}

/** Looks at a long text, and at a long list, in place of the first parameters. */
function checked(schema: string, cost: Cost): void {
  const keys = Object.keys(JSON.parse(schema).properties ?? { a: true }).slice(0, 2);
  for (const value of ["x".repeat(TEXT_LENGTH), Array.from({ length: TEXT_LENGTH / 10 }, (_, i) => ({ i }))]) {
    const text = JSON.stringify(Object.fromEntries(keys.map((key) => [key, value])));
    beside(cost, () => checkTexts([{ part: "arguments", strict: true, schema, text }]));
  }
}

function turn(cost: Cost, work: () => unknown): void {
  cost.loopMs = Math.max(cost.loopMs, again(msOf(work), work));
}

function beside(cost: Cost, work: () => unknown): void {
  const first = msOf(work);
  cost.coldMs = Math.max(cost.coldMs, first);
  cost.threadMs = Math.max(cost.threadMs, again(first, work));
}

/** Returns the median of some more times, where the first was notable. */
function again(first: number, work: () => unknown): number {
  return first < NOTABLE_MS ? first : median(Array.from({ length: TIMES }, () => msOf(work)));
}

/** Returns the CPU time of some work, which may refuse what it is given. */
function msOf(work: () => unknown): number {
  const beganMs = threadCpuMs();
  try {
    work();
  } catch (error) {
    if (!(error instanceof EngineError || error instanceof ApiError)) throw error;
  }
  return threadCpuMs() - beganMs;
}
