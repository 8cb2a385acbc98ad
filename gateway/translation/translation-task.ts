import { type CrashReport, crashReport } from "../../deploy/runtime/process/end-on-crash.ts";
import type { ThreadReply } from "../../deploy/runtime/threads/work-threads.ts";
import type { Catalog } from "../catalog.ts";
import { ApiError, type ApiErrorOptions, type ErrorCode, type Wording } from "../errors.ts";
import type { FormatSettings } from "../formats/format.ts";
import { parseBody, scanBody } from "../json/json-body.ts";
import { type Opening, Sealing } from "../sealing/sealing.ts";
import type { SealingKeys } from "../sealing/sealing-key.ts";
import type { PromptShape } from "../upstream/load-balancing/boundary-hashes.ts";
import { type PromptFacts, shapeBehind } from "../upstream/request/encoded-request.ts";
import type { PromptBound } from "../upstream/request/prompt-bound.ts";
import { type Translated, type TranslationOrder, translate } from "./translate.ts";

export type TranslationTask = {
  readonly body: Uint8Array;
  /** Top-level keys that must be unique in a JSON body; undefined for a message of the contract. */
  readonly singleKeys: readonly string[] | undefined;
  readonly order: TranslationOrder;
  readonly sealingKeys: SealingKeys;
  /** Catalog ids. */
  readonly modelsWithImages: readonly string[];
  /** By catalog id. */
  readonly promptBounds: Readonly<Record<string, readonly PromptBound[]>>;
  readonly settings: FormatSettings;
  readonly catalog: Catalog;
};

/** An encoded prompt, to be digested behind tools that it left out. */
export type ShapeTask = {
  readonly bytes: Uint8Array;
  readonly tools: Uint8Array;
  readonly prefixKey: Uint8Array;
};

/** Boundaries of a prompt in a form that is cheap to transfer: there may be tens of thousands. */
type PackedShape = Omit<PromptShape, "boundaries"> & {
  readonly hashes: readonly string[];
  readonly bytes: Float64Array;
  readonly marked: Uint8Array;
  /** Of the first boundary. */
  readonly tools: string | undefined;
};

type PackedFacts = Omit<PromptFacts, "shape"> & { readonly shape: PackedShape };

export type TranslationReply = ThreadReply & {
  /** The texts that the caller sent back, by outcome. */
  readonly openings: Readonly<Record<Opening, number>>;
  /** The unknown sealing keys in such texts. */
  readonly unknownKeys: readonly string[];
  /** The result, the error for the caller, or a crash report. */
  readonly end:
    | {
        readonly translated: Omit<Translated, "facts" | "inserted"> & {
          readonly facts: PackedFacts | undefined;
          /** The place of inserted messages, which stay where they came from. */
          readonly insertedAt: number | undefined;
        };
      }
    | { readonly error: { readonly code: ErrorCode; readonly wording: Wording; readonly options: ApiErrorOptions } }
    | { readonly fault: CrashReport };
};

export type ShapeReply = ThreadReply & {
  readonly end: { readonly shape: PackedShape } | { readonly fault: CrashReport };
};

/** Digests a prompt behind tools. It never throws. */
export function shapeReplyTo({ bytes, tools, prefixKey }: ShapeTask): ShapeReply {
  try {
    return { end: { shape: packed(shapeBehind(viewOf(tools), viewOf(bytes), prefixKey)) } };
  } catch (error) {
    return { end: { fault: crashReport(error) } };
  }
}

/** Parses and translates a body. It never throws. */
export function replyTo(task: TranslationTask): TranslationReply {
  const { sealingKeys, modelsWithImages, promptBounds, settings, catalog, order } = task;
  const unknownKeys: string[] = [];
  const sealing = new Sealing(sealingKeys, (id) => unknownKeys.push(id));
  const acceptsImages = (model: string) => modelsWithImages.includes(model);
  const boundsOf = (model: string) => promptBounds[model] ?? [];
  const end = endOf(() => {
    const surroundings = { sealing, acceptsImages, promptBounds: boundsOf, settings, catalog };
    const { facts, inserted, ...translated } = translate(parsed(task), order, surroundings);
    const shape = facts && { ...facts, shape: packed(facts.shape) };
    return { translated: { ...translated, insertedAt: inserted?.at, facts: shape } };
  });
  return { openings: sealing.openings, unknownKeys, end };
}

/** Returns bytes that came from another thread, which are no buffer there, as one. */
function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function parsed({ body, singleKeys }: TranslationTask): object {
  const bytes = viewOf(body);
  return singleKeys ? parseBody(scanBody(bytes, singleKeys)) : bytes;
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

function packed({ boundaries, ...shape }: PromptShape): PackedShape {
  return {
    ...shape,
    hashes: boundaries.map(({ hash }) => hash),
    bytes: Float64Array.from(boundaries, ({ bytes }) => bytes),
    marked: Uint8Array.from(boundaries, ({ marked }) => Number(marked)),
    tools: boundaries[0]?.tools,
  };
}

/** Returns the result of a translation. Throws its `ApiError` instead, if there is one. */
export function resultOf(
  end: Exclude<TranslationReply["end"], { readonly fault: CrashReport }>,
  { before }: Pick<TranslationOrder, "before">,
): Translated {
  if ("error" in end) throw new ApiError(end.error.code, end.error.wording, end.error.options);
  const { facts, insertedAt, ...translated } = end.translated;
  const inserted =
    before && insertedAt !== undefined ? { at: insertedAt, messages: before.prompt.messages } : undefined;
  return { ...translated, inserted, facts: facts && { ...facts, shape: unpacked(facts.shape) } };
}

/** Returns a shape that came from a thread. */
export function unpacked({ hashes, bytes, marked, tools, ...shape }: PackedShape): PromptShape {
  const boundaries = hashes.map((hash, at) => ({
    ...{ hash, bytes: bytes[at] ?? 0, marked: marked[at] === 1 },
    ...(at === 0 && tools !== undefined && { tools }),
  }));
  return { ...shape, boundaries };
}
