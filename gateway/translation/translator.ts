import { type CrashReport, crashReport } from "../../deploy/runtime/process/end-on-crash.ts";
import { canRun, WorkNotDone, WorkThreads } from "../../deploy/runtime/threads/work-threads.ts";
import type { MonotonicClock } from "../../deploy/runtime/time/clock.ts";
import { ApiError, toApiError } from "../errors.ts";
import { parseBody, scanBody } from "../json/json-body.ts";
import type { PromptShape } from "../upstream/load-balancing/boundary-hashes.ts";
import { HeadChanged, shapeBehind, wholeBytes } from "../upstream/request/encoded-request.ts";
import { type LastPrompt, LeftOutTools, restored } from "./left-out-tools.ts";
import { prefixKeyOf, type Surroundings, type Translated, type TranslationOrder, translate } from "./translate.ts";
import {
  resultOf,
  type ShapeReply,
  type ShapeTask,
  type TranslationReply,
  type TranslationTask,
  unpacked,
} from "./translation-task.ts";

/** Bytes translated on the main thread: about 5 ms, a quarter of the longest block by one request. */
const ON_THE_SPOT_BYTES = 256 * 1024;
/**
 * Most JSON values of a body that is translated on the main thread: objects dominate the cost of parsing and
 * serializing, and a schema can have twenty times those of a conversation of its size.
 */
const ON_THE_SPOT_NODES = 2_048;
/** A tenant with only large bodies occupies one thread, and the other serves the rest. */
const THREADS = 2;
/** Heap limit of one thread, in MiB: the largest body takes many times its size. */
const MAX_HEAP_MIB = 768;
/** Many times the longest translation of the largest body on a busy machine, in milliseconds. */
const LIMIT_MS = 30_000;
/** Bytes of a body after which its thread is discarded for its garbage; conversations are far smaller. */
const LARGE_BYTES = 4 * 1024 * 1024;
/** Idle time, in milliseconds, after which a thread that has had a large body ends. */
const REST_MS = 5_000;

/** TypeScript if this file is. */
const PROGRAM = new URL(`./translation-thread${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);

export type ReceivedBody = {
  readonly bytes: Buffer;
  /** Top-level keys that must be unique in a JSON body; undefined for a message of the contract. */
  readonly singleKeys: readonly string[] | undefined;
};

export type TranslatorOptions = Surroundings & {
  /** Whether requests get back the tools that they leave out of their conversation. */
  readonly restoresTools: boolean;
  readonly clock: MonotonicClock;
  readonly onFault: (fault: CrashReport) => void;
  /** Default: the program beside this file. */
  readonly program?: URL;
};

/**
 * Returns the parsed body; undefined for one that belongs on a thread: a large one, and JSON with many values or unusual
 * notation. Throws `ApiError`.
 */
export function parsedHere({ bytes, singleKeys }: ReceivedBody, hasThreads: boolean): object | undefined {
  if (hasThreads && bytes.length > ON_THE_SPOT_BYTES) return undefined;
  if (!singleKeys) return bytes;
  const scanned = scanBody(bytes, singleKeys);
  const isCostly = scanned.nodes > ON_THE_SPOT_NODES || scanned.restated.length > 0;
  return hasThreads && isCostly ? undefined : parseBody(scanned);
}

type Threads = WorkThreads<TranslationTask | ShapeTask, TranslationReply | ShapeReply>;

/** A translated body, with its record among those that a later request may continue. */
export type Translation = Translated & { readonly kept?: LastPrompt | undefined };

/**
 * Translates bodies for engines: small ones at once, large and unusual ones on threads, where they delay only their own
 * tenant. If threads are unavailable, which happens only with sources on old Node, all bodies are translated at once.
 */
export class Translator {
  readonly #options: TranslatorOptions;
  readonly #threads: Threads | undefined;
  readonly #leftOut: LeftOutTools | undefined;

  constructor(options: TranslatorOptions) {
    this.#options = options;
    const { clock, program = PROGRAM } = options;
    const threads = { clock, program, threads: THREADS, maxHeapMiB: MAX_HEAP_MIB, restMs: REST_MS };
    this.#threads = canRun(program) ? new WorkThreads(threads) : undefined;
    this.#leftOut = options.restoresTools ? new LeftOutTools(clock) : undefined;
  }

  /**
   * Checks and translates a body, undefined if there is none. Throws `ApiError`, and `WorkNotDone` if a thread has no
   * result. `signal` is aborted when the caller has left. The memory of a large body is transferred to the thread.
   */
  async translate(body: ReceivedBody | undefined, order: TranslationOrder, signal: AbortSignal): Promise<Translation> {
    const translated = await this.#translate(body, order, signal);
    const { facts } = translated;
    if (!this.#leftOut || !facts || facts.beyond) return translated;
    if (facts.shape.boundaries[0]?.tools) {
      const { bytes } = translated;
      return { ...translated, kept: this.#leftOut.keep({ bytes, facts }) };
    }
    const found = this.#leftOut.of(facts);
    if (found.length === 0) return translated;
    const bytes = wholeBytes(translated);
    const request = { bytes, facts };
    for (const leftOut of found) {
      const shape = await this.#shapeBehind(leftOut.tools, bytes, order.caller, facts.model, signal);
      const whole = shape && restored(request, leftOut, shape, this.#windowOf(facts.model));
      if (whole) return { ...translated, ...whole, inserted: undefined, after: undefined };
    }
    return translated;
  }

  async #translate(body: ReceivedBody | undefined, order: TranslationOrder, signal: AbortSignal): Promise<Translated> {
    try {
      const parsed = body && parsedHere(body, this.#threads !== undefined);
      const keptBytes = order.before?.prompt.messages.reduce((sum, { bytes }) => sum + bytes.byteLength, 0) ?? 0;
      const mayDigest = !this.#threads || keptBytes <= ON_THE_SPOT_BYTES;
      if (!body || !this.#threads || parsed) return translate(parsed, { ...order, mayDigest }, this.#options);
    } catch (error) {
      if (error instanceof HeadChanged && body && this.#threads) {
        return this.#onThread(this.#threads, body, order, signal);
      }
      if (!(error instanceof ApiError)) this.#options.onFault(crashReport(error));
      throw toApiError(error);
    }
    return this.#onThread(this.#threads, body, order, signal);
  }

  async close(): Promise<void> {
    await this.#threads?.close();
  }

  /** Resolves to undefined where a thread has no result. */
  async #shapeBehind(
    tools: Uint8Array,
    bytes: Uint8Array,
    { tenant, routingKey }: TranslationOrder["caller"],
    model: string,
    signal: AbortSignal,
  ): Promise<PromptShape | undefined> {
    const prefixKey = prefixKeyOf(routingKey, model);
    if (!this.#threads || bytes.byteLength <= ON_THE_SPOT_BYTES) return shapeBehind(tools, bytes, prefixKey);
    const terms = { limitMs: LIMIT_MS, large: bytes.byteLength > LARGE_BYTES };
    try {
      const { end } = await this.#threads.run({ bytes, tools, prefixKey }, { tenant, signal }, terms);
      if ("shape" in end) return unpacked(end.shape);
      if ("fault" in end) this.#options.onFault(end.fault);
      return undefined;
    } catch (error) {
      if (error instanceof WorkNotDone && error.why !== "left") return undefined;
      throw error;
    }
  }

  #windowOf(model: string): number {
    const { promptBounds, catalog } = this.#options;
    const windows = promptBounds(model).map(({ contextWindow }) => contextWindow);
    if (windows.length > 0) return Math.min(...windows);
    return catalog.models.find(({ id }) => id === model)?.contextWindow ?? 0;
  }

  async #onThread(
    threads: Threads,
    { bytes, singleKeys }: ReceivedBody,
    order: TranslationOrder,
    signal: AbortSignal,
  ): Promise<Translated> {
    const { sealing, catalog, acceptsImages, promptBounds, settings, onFault } = this.#options;
    const { tenant, routingKey } = order.caller;
    const task = {
      body: bytes,
      singleKeys,
      // A copy, because a view into a shared buffer would transfer the whole buffer.
      order: { ...order, caller: { ...order.caller, routingKey: Uint8Array.from(routingKey) } },
      sealingKeys: sealing.keys,
      modelsWithImages: catalog.models.map(({ id }) => id).filter(acceptsImages),
      promptBounds: Object.fromEntries(catalog.models.map(({ id }) => [id, promptBounds(id)])),
      settings,
      catalog,
    };
    const { buffer } = bytes;
    const transfer = buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteLength ? [buffer] : [];
    const terms = { limitMs: LIMIT_MS, transfer, large: order.bodyBytes > LARGE_BYTES };
    const reply = await threads.run(task, { tenant, signal }, terms);
    if (!("openings" in reply)) throw new Error("a translation is answered with one");
    const { openings, unknownKeys, end } = reply;
    sealing.opened(openings, unknownKeys);
    if (!("fault" in end)) return resultOf(end, order);
    onFault(end.fault);
    throw toApiError(undefined);
  }
}
