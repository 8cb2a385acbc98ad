import { readdirSync } from "node:fs";
import { join } from "node:path";
import { WorkThreads } from "../../../deploy/runtime/threads/work-threads.ts";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { THREAD_BOUNDS } from "../../../engine/caller-work/caller-work.ts";
import { digestOf, type GrammarInput, worthReading } from "../../../engine/caller-work/grammar-input.ts";
import { EngineError } from "../../../engine/errors.ts";
import type { OutputMarkers } from "../../../engine/output-parser/markers.ts";
import { loadProfile } from "../../../engine/profiles/profile.ts";
import { argumentTypes } from "../../../engine/tool-calls/argument-types.ts";
import { DEFAULT_CATALOG } from "../../../gateway/catalog.ts";
import { ApiError } from "../../../gateway/errors.ts";
import { schemaText } from "../../../gateway/formats/tools.ts";
import { Sealing } from "../../../gateway/sealing/sealing.ts";
import { type Caller, type Surroundings, translate } from "../../../gateway/translation/translate.ts";
import { parsedHere } from "../../../gateway/translation/translator.ts";
import { FORMAT_SETTINGS } from "../../support/events/format-settings.ts";
import { bodyFor } from "../../support/http/answer-check.ts";
import { HOSTILE_SHAPES } from "../../support/schemas/hostile-schema.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { threadCpuMs } from "../../support/thread-cpu.ts";
import type { Row } from "../report/bench-result.ts";
import { median } from "../report/percentile.ts";
import type { Measurement, ThreadWork } from "./measured-thread.ts";

const SIZES = [3, 30, 60, 100, 300, 1_000];
const SEED = 1;
/** The number of costliest pieces of work that are repeated, and of the repetitions. */
const COSTLIEST = 2;
const TIMES = 3;
const ORDINARY = 100;
/** The limit of a piece of work, in milliseconds, far beyond any duration. */
const LIMIT_MS = 60_000;
const NEVER = new AbortController().signal;
const PROFILES = join(import.meta.dirname, "../../../../engine/profiles");
/** The profiles of the quick mode: arguments as JSON, between tags, and as elements. */
const SOME_PROFILES = ["hermes", "glm-4.7", "minimax-m3"];
const TEXT_LENGTH = 20_000;
const SINGLE_KEYS = ["model", "messages", "stream", "max_tokens"];
const CALLER: Caller = {
  ...{ requestId: "bench", tenant: "t", cacheSalt: "salt", maxOutputTokens: undefined, usableModels: [] },
  routingKey: Buffer.alloc(32, 1),
};
const SURROUNDINGS: Surroundings = {
  ...{ sealing: new Sealing(), acceptsImages: () => true, settings: FORMAT_SETTINGS, catalog: DEFAULT_CATALOG },
  promptBounds: () => [],
};

type MeasuredThread = WorkThreads<ThreadWork, Measurement>;

/** A piece of work: on the shared event loop, where it may refuse its input, or on a worker thread. */
type Piece =
  | { readonly on: "loop"; readonly work: () => unknown }
  | { readonly on: "thread"; readonly work: ThreadWork };

/** The rows of the table, and the profiles represented by others. */
type HostileRows = { readonly rows: readonly Row[]; readonly alike: readonly string[] };

/**
 * Measures the cost of each shape of hostile schemas by backend and profile: the longest turn on the shared event loop,
 * and the work on a worker thread with the heap and limits of a node's. Results are CPU time of the thread for the
 * costliest size. Of profiles with the same form of calls, whose grammars differ in marks only, one is measured.
 */
export async function hostileRows(quick: boolean): Promise<HostileRows> {
  const groups = quick ? SOME_PROFILES.map((profile) => [profile]) : alikeProfiles();
  const program = new URL(`./measured-thread${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);
  const thread: MeasuredThread = new WorkThreads({ clock: systemClock, program, threads: 1, ...THREAD_BOUNDS });
  const rows: Row[] = [];
  serveSome();
  for (const [shape, make] of Object.entries(HOSTILE_SHAPES)) {
    const schemas = SIZES.flatMap((size) => taken(make(new SeededRandom(SEED), size)));
    const row = async (backend: string, profile: string, piecesOf: (schema: string) => readonly Piece[]) =>
      rows.push({ shape, backend, profile, ...(await measured(schemas.flatMap(piecesOf), thread)) });
    await row("gateway", "", translated);
    await row("all: last look", "", checked);
    for (const [profile = ""] of groups) await row("llama", profile, inProcess(markersOf(profile)));
  }
  await thread.close();
  const alike = groups.flatMap(([first, ...others]) =>
    others.length === 0 ? [] : [`${first} stands for ${others.join(", ")}`],
  );
  return { rows, alike };
}

function alikeProfiles(): readonly (readonly string[])[] {
  const groups = new Map<string, string[]>();
  for (const name of readdirSync(PROFILES).flatMap((file) => file.match(/^(.+)\.yaml$/)?.[1] ?? [])) {
    const form = loadProfile(name).toolCall?.form ?? "";
    groups.set(form, [...(groups.get(form) ?? []), name]);
  }
  return [...groups.values()];
}

/** Returns the text of a schema if a gateway accepts it. */
function taken(schema: object | undefined): readonly string[] {
  try {
    return [schemaText(schema, [], "function", false)];
  } catch (error) {
    if (error instanceof ApiError) return [];
    throw error;
  }
}

function markersOf(profile: string): OutputMarkers {
  const { reasoning, toolCall, text } = loadProfile(profile);
  return { ...(reasoning && { reasoning }), ...(toolCall && { toolCall }), ...(text && { text }) };
}

function inProcess(markers: OutputMarkers): (schema: string) => readonly Piece[] {
  return (schema) => {
    const key = Object.keys(JSON.parse(schema).properties ?? {})[0] ?? "a";
    const types = () => argumentTypes([{ name: "f", parametersJsonSchema: schema }])("f", [key]);
    const ofInputs = inputsOf(schema, markers).flatMap((input): Piece[] => [
      { on: "loop", work: () => digestOf(worthReading(input), "") },
      { on: "thread", work: { kind: "grammar", input: worthReading(input) } },
    ]);
    return [{ on: "loop", work: types }, ...ofInputs];
  };
}

/** Returns the kinds of requests: a strict answer, a strict tool, a mandatory call. */
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

/** Parses and translates a body with the schema on the thread that a gateway uses for it. */
function translated(schema: string): readonly Piece[] {
  const tools = [{ type: "function", function: { name: "f", parameters: JSON.parse(schema) } }];
  const bytes = Buffer.from(JSON.stringify(bodyFor("/v1/chat/completions", "call f", { tools })));
  const order = { operation: "chat", caller: CALLER, bodyBytes: bytes.length } as const;
  const parsed = () => parsedHere({ bytes, singleKeys: SINGLE_KEYS }, true);
  if (parsed()) return [{ on: "loop", work: () => translate(parsed(), order, SURROUNDINGS) }];
  const { sealing, settings, catalog } = SURROUNDINGS;
  return [
    {
      on: "thread",
      work: {
        ...{ body: bytes, singleKeys: SINGLE_KEYS, order, sealingKeys: sealing.keys },
        ...{ modelsWithImages: catalog.models.map(({ id }) => id), promptBounds: {}, settings, catalog },
      },
    },
  ];
}

/** Translates ordinary bodies: the first ones of a process cost several times as much, whatever their content. */
function serveSome(): void {
  for (let time = 0; time < ORDINARY; time += 1)
    for (const piece of translated('{"type":"object","properties":{"path":{"type":"string"}}}'))
      if (piece.on === "loop") msHere(piece.work);
}

/** Checks a long text and a long list as the first parameters. */
function checked(schema: string): readonly Piece[] {
  const keys = Object.keys(JSON.parse(schema).properties ?? { a: true }).slice(0, 2);
  return ["x".repeat(TEXT_LENGTH), Array.from({ length: TEXT_LENGTH / 10 }, (_, i) => ({ i }))].map((value) => {
    const text = JSON.stringify(Object.fromEntries(keys.map((key) => [key, value])));
    return { on: "thread", work: { kind: "check", input: [{ part: "arguments", strict: true, schema, text }] } };
  });
}

/**
 * Returns the cost of the costliest piece of each kind: the first time, the median of repetitions, and the maximum of
 * all.
 */
async function measured(pieces: readonly Piece[], thread: MeasuredThread) {
  const of = async (on: Piece["on"]) => {
    const first: { readonly piece: Piece; readonly ms: number }[] = [];
    for (const piece of pieces) if (piece.on === on) first.push({ piece, ms: await msOf(piece, thread) });
    const costliest = first.toSorted((a, b) => b.ms - a.ms).slice(0, COSTLIEST);
    const again: number[][] = [];
    for (const { piece } of costliest) {
      const times: number[] = [];
      for (let time = 0; time < TIMES; time += 1) times.push(await msOf(piece, thread));
      again.push(times);
    }
    const cold = costliest[0]?.ms ?? 0;
    return { cold, again: Math.max(0, ...again.map(median)), most: Math.max(cold, ...again.flat()) };
  };
  const loop = await of("loop");
  const beside = await of("thread");
  return {
    ...{ loopMs: loop.again, loopMostMs: loop.most },
    ...{ coldMs: beside.cold, threadMs: beside.again, mostMs: beside.most },
  };
}

/** Resolves to the CPU time of a piece of work, in milliseconds. Throws if the work fails unexpectedly. */
async function msOf(piece: Piece, thread: MeasuredThread): Promise<number> {
  if (piece.on === "loop") return msHere(piece.work);
  const { ms, fault } = await thread.run(piece.work, { tenant: "", signal: NEVER }, { limitMs: LIMIT_MS });
  if (fault) throw new Error(`the work has a fault: ${JSON.stringify(fault)}`);
  return ms;
}

function msHere(work: () => unknown): number {
  const beganMs = threadCpuMs();
  try {
    work();
  } catch (error) {
    if (!(error instanceof EngineError || error instanceof ApiError)) throw error;
  }
  return threadCpuMs() - beganMs;
}
