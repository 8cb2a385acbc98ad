import { type CrashReport, crashReport } from "../../deploy/runtime/process/end-on-crash.ts";
import { canRun, WorkThreads } from "../../deploy/runtime/threads/work-threads.ts";
import type { MonotonicClock } from "../../deploy/runtime/time/clock.ts";
import { ApiError, toApiError } from "../errors.ts";
import { parseBody } from "../json/json-body.ts";
import { type JsonLimits, JsonScan } from "../json/json-scan.ts";
import { type Surroundings, type Translated, type TranslationOrder, translate } from "./translate.ts";
import { resultOf, type TranslationReply, type TranslationTask } from "./translation-task.ts";

/**
 * The size of a body in bytes up to which it is translated where it came in: that takes about 5 ms, a quarter of what
 * one request may hold the event loop.
 */
const ON_THE_SPOT_BYTES = 256 * 1024;
/**
 * The number of values in a body up to which it is translated where it came in: objects are what parsing and writing
 * costs, and a schema can have twenty times those of a conversation of its size.
 */
const ON_THE_SPOT_NODES = 2_048;
/** The number of threads: a tenant whose bodies are all big has one of them, and the other serves the rest. */
const THREADS = 2;
/** The most memory of the objects of one thread, in MiB: the largest body has many times its size on its way. */
const MAX_HEAP_MIB = 768;
/** The longest that translating the largest body takes on a machine that is busy, in milliseconds, many times over. */
const LIMIT_MS = 30_000;
/**
 * The size of a body in bytes from which it leaves so much behind that its thread is not kept. That of a long
 * conversation is far smaller: to start a thread takes ten times as long as to translate one.
 */
const LARGE_BYTES = 4 * 1024 * 1024;
/** The time without work, in milliseconds, after which a thread ends that has had a large body. */
const REST_MS = 5_000;

/** The program of the threads; TypeScript where this file is. */
const PROGRAM = new URL(`./translation-thread${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);

/** A body as it came in. */
export type ReceivedBody = {
  /** The bytes of the body. */
  readonly bytes: Buffer;
  /** The scan that was fed with all of the bytes; undefined where the bytes were too many to look at on their way. */
  readonly scan: JsonScan | undefined;
  /** The keys that may stand only once at the top of a body of JSON; undefined for a message of the contract. */
  readonly singleKeys: readonly string[] | undefined;
};

/** What a translator works with. */
export type TranslatorOptions = Surroundings & {
  /** What parsing a body may cost. */
  readonly limits: JsonLimits;
  /** The clock that measures how long bodies take. */
  readonly clock: MonotonicClock;
  /** Called with the facts about a fault of this program, after which the request has failed. */
  readonly onFault: (fault: CrashReport) => void;
  /** The program of the threads. Default: the one beside this file. */
  readonly program?: URL;
};

/** Returns whether a body of so many bytes is translated on a thread of its own. */
export function isBig(bytes: number): boolean {
  return bytes > ON_THE_SPOT_BYTES;
}

/**
 * Returns whether a body is work for a thread: a big one, and JSON that has many values, is unusual or was not looked at
 * on its way.
 */
export function needsThread({ bytes, scan, singleKeys }: ReceivedBody): boolean {
  if (isBig(bytes.length)) return true;
  return singleKeys !== undefined && (!scan || scan.isRestated || scan.nodes > ON_THE_SPOT_NODES);
}

/**
 * Translates bodies for engines: small ones at once, big and unusual ones on threads, where they hold up nobody but
 * their own tenant. Where threads cannot be run, which is only from sources on old Node, all of it is done at once.
 */
export class Translator {
  readonly #options: TranslatorOptions;
  readonly #threads: WorkThreads<TranslationTask, TranslationReply> | undefined;

  constructor(options: TranslatorOptions) {
    this.#options = options;
    const { clock, program = PROGRAM } = options;
    const threads = { clock, program, threads: THREADS, maxHeapMiB: MAX_HEAP_MIB, restMs: REST_MS };
    this.#threads = canRun(program) ? new WorkThreads(threads) : undefined;
  }

  /**
   * Checks a body, undefined where there is none, and translates it. Throws `ApiError`, and `WorkNotDone` where a
   * thread has no result. `signal` is aborted when the caller has left. A big body is gone afterwards: its memory went
   * to the thread.
   */
  async translate(body: ReceivedBody | undefined, order: TranslationOrder, signal: AbortSignal): Promise<Translated> {
    if (body && this.#threads && needsThread(body)) return this.#onThread(this.#threads, body, order, signal);
    try {
      return translate(body && this.#parsed(body), order, this.#options);
    } catch (error) {
      if (!(error instanceof ApiError)) this.#options.onFault(crashReport(error));
      throw toApiError(error);
    }
  }

  /** Ends the threads. */
  async close(): Promise<void> {
    await this.#threads?.close();
  }

  #parsed({ bytes, scan, singleKeys }: ReceivedBody): object {
    if (!singleKeys) return bytes;
    if (scan) return parseBody(bytes, scan);
    const late = new JsonScan(singleKeys, this.#options.limits);
    late.feed(bytes);
    return parseBody(bytes, late);
  }

  async #onThread(
    threads: WorkThreads<TranslationTask, TranslationReply>,
    { bytes, singleKeys }: ReceivedBody,
    order: TranslationOrder,
    signal: AbortSignal,
  ): Promise<Translated> {
    const { limits, sealing, catalog, acceptsImages, promptBounds, settings, onFault } = this.#options;
    const { tenant, routingKey } = order.caller;
    const task = {
      body: bytes,
      singleKeys,
      limits,
      // A copy: of a view into a shared buffer all of the buffer would go along.
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
    const { openings, unknownKeys, end } = await threads.run(task, { tenant, signal }, terms);
    sealing.opened(openings, unknownKeys);
    if (!("fault" in end)) return resultOf(end);
    onFault(end.fault);
    throw toApiError(undefined);
  }
}
