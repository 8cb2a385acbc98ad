import type { FastifyReply, FastifyRequest } from "fastify";
import { toApiError } from "../../errors.ts";
import { toolSeconds } from "../../formats/agent-hints.ts";
import { CompletionFold } from "../../formats/completion.ts";
import type { Format, Head } from "../../formats/format.ts";
import { mendedByRepeating } from "../../outcome.ts";
import type { Sealing } from "../../sealing/sealing.ts";
import { RequestBuffer } from "../../upstream/request/request-buffer.ts";
import { type RateLimitDeps, reserveTokens } from "../access/rate-limit.ts";
import { type TranslationDeps, translateBody } from "../body/request-body.ts";
import { principalOf, routingHints } from "../record/request-context.ts";
import type { RequestRecord } from "../record/request-record.ts";
import { randomId } from "../record/trace-context.ts";
import { type DispatchDeps, dispatchAnswer, type Giving, notePause, type PaidRequest } from "./dispatch-answer.ts";
import { SseStream, type SseStreamOptions } from "./sse-stream.ts";

export type GenerateRouteDeps = DispatchDeps & {
  readonly translation: TranslationDeps;
  readonly sealing: Sealing;
  readonly limits: RateLimitDeps;
  /** The time limits of an answer, in milliseconds; `upstream/call/timeouts.ts` has what each means. */
  readonly timeouts: {
    readonly keepAliveIntervalMs: number;
    readonly headerCommitMs: number;
    readonly clientWriteStallMs: number;
    readonly maxStreamDurationMs: number;
    readonly maxRequestDurationMs: number;
  };
  /** How a stream ends that broke after its status line, if a retry may help and its format's agents repeat cut ones. */
  readonly brokenStream: "cut" | "error";
  /** Whether replies report the cached tokens, and the reason for misses. */
  readonly cacheHeader: boolean;
};

type CheckedRequest = PaidRequest & {
  readonly format: Format;
  readonly stream: boolean;
  readonly options: object;
  readonly head: Head;
  readonly reply: FastifyReply;
};

const STREAM_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  // Some proxies buffer a response without this header.
  "x-accel-buffering": "no",
};

/** Makes the handler of all routes that generate: it checks, translates, dispatches, and writes the answer. */
export function generateRoute(format: Format, deps: GenerateRouteDeps) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const checked = await check(format, request, reply, deps);
    return checked.stream ? streamedAnswer(checked, deps) : foldedAnswer(checked, deps);
  };
}

/** Checks the body, the key's right to the model and its limits. Throws `ApiError`. */
async function check(
  format: Format,
  request: FastifyRequest,
  reply: FastifyReply,
  deps: GenerateRouteDeps,
): Promise<CheckedRequest> {
  const { translation, running, stats } = deps;
  const { record } = request;
  const principal = principalOf(request);
  const answer = running.begin(reply.raw, principal.keyId);
  const translated = await translateBody(request, answer.signal, translation);
  const { model, stream = false, options, places, bytes, facts, kept, priority, unopened } = translated;
  if (!options || !facts) throw new Error("a generation was translated as something else");
  record.prepared(model, stream, unopened);
  translation.models.require(principal, model);
  for (const seconds of toolSeconds(request.headers)) stats.toolDuration.observe(seconds);
  await reserveTokens(request.limited, translated, deps.limits);
  const head = headOf(format, record, principal.tenant, model, deps);
  return {
    request: new RequestBuffer({ bytes }, principal.tenant, () => request.inflightBody?.release()),
    hints: routingHints(principal, request.headers, priority),
    ...{ format, model, stream, options, places, facts, kept, head, record, reply, answer },
  };
}

/** Makes what a reply is written from. */
export function headOf(
  { name: format }: Pick<Format, "name">,
  record: RequestRecord,
  tenant: string,
  model: string,
  { sealing, clock }: Pick<GenerateRouteDeps, "sealing" | "clock">,
): Head {
  return {
    replyId: randomId(),
    requestId: record.requestId,
    createdSeconds: Math.floor(clock.wallMs() / 1000),
    nowSeconds: () => Math.floor(clock.wallMs() / 1000),
    sealer: sealing.for({ tenant, model, format }),
    cacheMiss: () => record.facts.cache,
  };
}

/** Writes frames as the events arrive. Until one commits the stream, a failure has a status of its own. */
async function streamedAnswer(checked: CheckedRequest, deps: GenerateRouteDeps): Promise<FastifyReply> {
  const { format, reply } = checked;
  const { head, options } = checked;
  const stream = openStream(
    checked,
    {
      response: reply.raw,
      encoder: format.encoder(head, options),
      // Headers set by hooks, such as the request id: the stream bypasses Fastify.
      headers: Object.assign(reply.getHeaders() as Record<string, string>, STREAM_HEADERS),
    },
    deps,
  );
  const onHead = deps.cacheHeader ? () => setCacheHeader(checked) : undefined;
  const timeoutMs = deps.timeouts.maxStreamDurationMs;
  try {
    await dispatchAnswer(checked, { timeoutMs, keepsAlive: true, sink: stream, onHead }, deps, true);
    reply.hijack();
    stream.end();
  } catch (thrown) {
    const error = toApiError(thrown);
    // No byte was sent: the caller gets the status, and its SDK may retry.
    if (!stream.committed) {
      stream.abandon();
      throw error;
    }
    reply.hijack();
    if (deps.brokenStream === "cut" && format.repeatsCutStreams && mendedByRepeating(error.detail)) stream.cut(error);
    else stream.fail(error);
  }
  return reply;
}

/** Reports the cached tokens, and the reason for misses, in a header, unless the head was sent. */
function setCacheHeader({ record, reply }: CheckedRequest): void {
  const { cache } = record.facts;
  if (!cache || reply.raw.headersSent) return;
  const { expectedTokens, cachedTokens, lostTokens, reason, changedMessage } = cache;
  const counts = `expected=${expectedTokens}, cached=${cachedTokens}, lost=${lostTokens}, reason=${reason}`;
  reply.raw.setHeader("x-svc-cache", changedMessage === undefined ? counts : `${counts}, message=${changedMessage}`);
}

/** Opens the stream of a streamed answer, which is written to `to.response`. */
export function openStream(
  paid: PaidRequest,
  to: Pick<SseStreamOptions, "response" | "encoder" | "headers">,
  { clock, stats, timeouts }: Pick<GenerateRouteDeps, "clock" | "stats" | "timeouts">,
): SseStream {
  const { model, record, answer } = paid;
  const gaps = stats.gaps.labels(model);
  return new SseStream({
    ...to,
    clock,
    keepAliveIntervalMs: timeouts.keepAliveIntervalMs,
    headerCommitMs: timeouts.headerCommitMs,
    writeStallMs: timeouts.clientWriteStallMs,
    onStall: () => {
      record.readerStalled();
      answer.abort();
    },
    onGap: (gapMs) => {
      gaps.observe(gapMs / 1000);
      record.wrote(gapMs);
    },
    onPaused: (paused) => notePause(paid, paused, stats),
  });
}

/** Folds the events. The client receives no byte before the end, so that an attempt may be repeated. */
async function foldedAnswer(checked: CheckedRequest, deps: GenerateRouteDeps): Promise<FastifyReply> {
  const { format, options, head, reply } = checked;
  let fold = new CompletionFold();
  const sink: Giving["sink"] = {
    events(events) {
      for (const event of events) fold.next(event);
    },
    deltas({ texts }) {
      for (const text of texts) fold.text(text);
    },
    restart() {
      fold = new CompletionFold();
    },
  };
  const timeoutMs = deps.timeouts.maxRequestDurationMs;
  await dispatchAnswer(checked, { timeoutMs, keepsAlive: false, sink }, deps, false);
  if (deps.cacheHeader) setCacheHeader(checked);
  return reply.type("application/json; charset=utf-8").send(JSON.stringify(format.reply(head, fold.result(), options)));
}
