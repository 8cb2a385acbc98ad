import { type CrashReport, crashReport } from "../../deploy/runtime/process/end-on-crash.ts";
import type { ThreadReply } from "../../deploy/runtime/threads/grown-heap.ts";
import type { Catalog } from "../catalog.ts";
import { ApiError, type ApiErrorOptions, type ErrorCode, type Wording } from "../errors.ts";
import type { FormatSettings } from "../formats/format.ts";
import { parseBody } from "../json/json-body.ts";
import { type JsonLimits, JsonScan } from "../json/json-scan.ts";
import { type Opening, Sealing } from "../sealing/sealing.ts";
import type { SealingKeys } from "../sealing/sealing-key.ts";
import type { PromptFacts } from "../upstream/encoded-request.ts";
import type { PromptBound } from "../upstream/prompt-bound.ts";
import { type Translated, type TranslationOrder, translate } from "./translate.ts";

/** A translation as plain data, which can go to another thread. */
export type TranslationTask = {
  /** The bytes of the body. */
  readonly body: Uint8Array;
  /** The keys that may stand only once at the top of a body of JSON; undefined for a message of the contract. */
  readonly singleKeys: readonly string[] | undefined;
  /** What parsing the body may cost. */
  readonly limits: JsonLimits;
  /** The kind of the body, and who sent it. */
  readonly order: TranslationOrder;
  /** The keys that open the reasoning which the caller sends back. */
  readonly sealingKeys: SealingKeys;
  /** The catalog ids of the models of which some engine takes images. */
  readonly modelsWithImages: readonly string[];
  /** What bounds the prompts of each model, by its catalog id. */
  readonly promptBounds: Readonly<Record<string, readonly PromptBound[]>>;
  /** The settings of the formats. */
  readonly settings: FormatSettings;
  /** The models of the service. */
  readonly catalog: Catalog;
};

/** The boundaries of a prompt in a form that costs little to hand over: there may be tens of thousands. */
type PackedFacts = Omit<PromptFacts, "shape"> & {
  readonly hashes: readonly string[];
  readonly bytes: Float64Array;
  readonly marked: Uint8Array;
  readonly lastTurn: number | undefined;
};

/** An `ApiError` taken apart. */
type PackedError = { readonly code: ErrorCode; readonly wording: Wording; readonly options: ApiErrorOptions };

/** The end of a translation: its result, why the body is refused, or a fault of this program. */
export type TranslationReply = ThreadReply & {
  /** The numbers of texts that the caller sent back, by whether they were opened. */
  readonly openings: Readonly<Record<Opening, number>>;
  /** The ids of sealing keys that such texts name and that are not here. */
  readonly unknownKeys: readonly string[];
  /** The result itself, the error that the caller gets, or the facts about a fault of this program. */
  readonly end:
    | { readonly translated: Omit<Translated, "facts"> & { readonly facts: PackedFacts | undefined } }
    | { readonly error: PackedError }
    | { readonly fault: CrashReport };
};

/** Parses a body and translates it. It never throws. */
export function replyTo(task: TranslationTask): TranslationReply {
  const { sealingKeys, modelsWithImages, promptBounds, settings, catalog, order } = task;
  const unknownKeys: string[] = [];
  const sealing = new Sealing(sealingKeys, (id) => unknownKeys.push(id));
  const acceptsImages = (model: string) => modelsWithImages.includes(model);
  const boundsOf = (model: string) => promptBounds[model] ?? [];
  const end = endOf(() => {
    const surroundings = { sealing, acceptsImages, promptBounds: boundsOf, settings, catalog };
    const { facts, ...translated } = translate(parsed(task), order, surroundings);
    return { translated: { ...translated, facts: facts && packed(facts) } };
  });
  return { openings: sealing.openings, unknownKeys, end };
}

function parsed({ body: { buffer, byteOffset, byteLength }, singleKeys, limits }: TranslationTask): object {
  const bytes = Buffer.from(buffer, byteOffset, byteLength);
  if (!singleKeys) return bytes;
  const scan = new JsonScan(singleKeys, limits);
  scan.feed(bytes);
  return parseBody(bytes, scan);
}

function endOf(work: () => TranslationReply["end"]): TranslationReply["end"] {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ApiError)) return { fault: crashReport(error) };
    const { code, wording, options } = error;
    return { error: { code, wording, options } };
  }
}

function packed({ shape: { boundaries, lastTurn }, ...facts }: PromptFacts): PackedFacts {
  return {
    ...facts,
    hashes: boundaries.map(({ hash }) => hash),
    bytes: Float64Array.from(boundaries, ({ bytes }) => bytes),
    marked: Uint8Array.from(boundaries, ({ marked }) => Number(marked)),
    lastTurn,
  };
}

/** Returns the result that is in the end of a translation. Throws the `ApiError` that is in it instead. */
export function resultOf(end: Exclude<TranslationReply["end"], { readonly fault: CrashReport }>): Translated {
  if ("error" in end) throw new ApiError(end.error.code, end.error.wording, end.error.options);
  const { facts, ...translated } = end.translated;
  return { ...translated, facts: facts && unpacked(facts) };
}

function unpacked({ hashes, bytes, marked, lastTurn, ...facts }: PackedFacts): PromptFacts {
  const boundaries = hashes.map((hash, at) => ({ hash, bytes: bytes[at] ?? 0, marked: marked[at] === 1 }));
  return { ...facts, shape: { boundaries, lastTurn } };
}
