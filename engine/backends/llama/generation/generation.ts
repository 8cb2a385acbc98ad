import { linkAbort } from "../../../../deploy/runtime/time/abort.ts";
import {
  FinishReason,
  type GenerateRequest,
  type GenerateResponse,
  type Started,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../../errors.ts";
import { SignsOfLife } from "../../signs-of-life.ts";
import { finished, progress, started, stepOf, timings } from "../../stream-events.ts";
import { SlotLease } from "../slots/slot-lease.ts";
import type { Returns, Slot } from "../slots/slots.ts";
import type { AnswerStep } from "./answer.ts";
import { Decoding, readPrompt } from "./decoding.ts";
import { type EngineParts, type PreparedGeneration, prepareGeneration } from "./prepared-generation.ts";

/** The most output tokens that the queue charges in advance: the length of the answer is unknown. */
const OUTPUT_RESERVE_TOKENS = 1024;
const NOTHING: AnswerStep = { events: [], tokens: [] };

/** Runs one generation. While the consumer pauses, at most one step runs. Throws `EngineError`. */
export async function* generate(
  parts: EngineParts,
  request: GenerateRequest,
  signal: AbortSignal,
): AsyncGenerator<GenerateResponse, void, void> {
  const joinedMs = parts.clock.nowMs();
  const prepared = yield* prepare(parts, request, signal);
  const { demand, keepMs, answer } = prepared;
  if (answer.over) {
    // The given tokens are the complete answer: it needs no slot.
    yield opening(parts, prepared, 0);
    const endMs = parts.clock.nowMs();
    yield closing(prepared, NOTHING, 0, { joinedMs, slotMs: endMs, endMs });
    return;
  }

  const { slot, announced } = yield* admit(parts, prepared, request, signal);
  const lease = new SlotLease({ slots: parts.slots, slot, steps: parts.steps, keepMs, signal });
  parts.leases.add(lease);
  const reading = parts.turns.begin(request.tenant, demand.prompt.length, slot.reusable(demand));
  let decoding: Decoding | undefined;
  try {
    const slotMs = parts.clock.nowMs();
    const cached = await lease.adapt(demand);
    reading.expect(cached);
    const cachedInputTokens = Math.min(cached, prepared.inputTokens);
    const first = announced ? undefined : opening(parts, prepared, cachedInputTokens);
    const { read, news } = yield* readPrompt(parts, prepared, { lease, reading }, { read: cached, news: first });

    decoding = new Decoding(parts, prepared, lease, { tail: demand.prompt.slice(read), reading });
    // Sent while the first token is computed.
    if (news) yield news;
    let step = await decoding.step();
    lease.announce();
    while (!step.over) {
      if (step.events.length + step.tokens.length > 0) yield stepOf(step.events, step.tokens);
      step = await decoding.step();
    }
    slot.returns = returnsBehind(answer.finishReason(), request.priority);
    slot.leased = request.lease;
    const times = { joinedMs, slotMs, firstTokenMs: decoding.firstTokenMs, endMs: parts.clock.nowMs() };
    // Closed before the last event is sent: the next turn of this conversation may arrive at once, and needs this slot.
    await lease.close();
    yield closing(prepared, step, cachedInputTokens, times);
  } finally {
    await lease.close();
    decoding?.close();
    reading.close();
    parts.leases.delete(lease);
  }
}

/** Requests of this priority and below are titles, suggestions and the like: no conversation goes on behind them. */
const BACKGROUND_PRIORITY = -50;

function returnsBehind(reason: FinishReason, priority: number): Returns {
  if (priority <= BACKGROUND_PRIORITY) return "never";
  return reason === FinishReason.TOOL_CALLS ? "soon" : "later";
}

/** Validates and tokenizes a request, with heartbeats while that uses other threads. */
async function* prepare(
  parts: EngineParts,
  request: GenerateRequest,
  signal: AbortSignal,
): AsyncGenerator<GenerateResponse, PreparedGeneration, void> {
  const link = linkAbort(signal);
  const life = new SignsOfLife(() => progress(0, 0, parts.work.moves));
  const order = { tenant: request.tenant, signal: link.signal, onMove: () => life.moved() };
  let prepared: PreparedGeneration | undefined;
  try {
    prepared = yield* life.during(prepareGeneration(parts, request, order));
    return prepared;
  } finally {
    link.release();
    // A consumer that stops iterating cancels the work.
    if (!prepared) link.abort(new EngineError("CANCELLED", "The caller has left."));
  }
}

type Admission = {
  readonly slot: Slot;
  /** Whether `started` has been sent, as it is for a request that waited. */
  readonly announced: boolean;
};

/** Takes a slot, after a wait with heartbeats if none is free. Throws `EngineError`. The caller owns the slot. */
async function* admit(
  parts: EngineParts,
  prepared: PreparedGeneration,
  { tenant, priority }: GenerateRequest,
  signal: AbortSignal,
): AsyncGenerator<GenerateResponse, Admission, void> {
  const { demand, keepMs, answer } = prepared;
  const free = parts.queue.length === 0 ? parts.slots.take(demand) : undefined;
  if (free) return { slot: free, announced: false };
  const cost = demand.prompt.length + Math.min(answer.tokensLeft, OUTPUT_RESERVE_TOKENS);
  const waiting = { demand, uncachedTokens: parts.slots.uncachedTokens(demand) };
  const ticket = parts.queue.join(waiting, { tenant, priority, cost }, signal);
  let taken: Slot | undefined;
  try {
    const { events, tokens } = opening(parts, prepared, undefined);
    yield stepOf([...events, progress(ticket.position, 0, parts.queue.beats)], tokens);
    for (;;) {
      const news = await ticket.next();
      if (news.kind === "granted") {
        taken = news.grant;
        return { slot: taken, announced: true };
      }
      yield stepOf([progress(news.position, 0, parts.queue.beats)]);
    }
  } finally {
    const granted = ticket.close();
    if (granted && !taken) parts.slots.release(granted, keepMs);
  }
}

/** Returns the first response; `cachedInputTokens` is undefined before the request has a slot. */
function opening(
  { nodeId, revision: modelRevision }: EngineParts,
  { inputTokens, promptDigest, sampling, replayed }: PreparedGeneration,
  cachedInputTokens: number | undefined,
): GenerateResponse {
  const start: Started = {
    nodeId,
    modelRevision,
    inputTokens,
    sampling,
    ...(promptDigest !== undefined && { promptDigest }),
  };
  const event = started(cachedInputTokens === undefined ? start : { ...start, cachedInputTokens });
  return stepOf([event, ...replayed.events], replayed.tokens);
}

/** In milliseconds of the engine's clock. Without a first token, decoding took no time. */
type Times = {
  readonly joinedMs: number;
  readonly slotMs: number;
  readonly firstTokenMs?: number | undefined;
  readonly endMs: number;
};

function closing(
  { inputTokens, answer, markedTokens }: PreparedGeneration,
  { events, tokens }: AnswerStep,
  cachedInputTokens: number,
  { joinedMs, slotMs, firstTokenMs, endMs }: Times,
): GenerateResponse {
  const held = answer.end();
  const decodingMs = firstTokenMs ?? endMs;
  const end = finished({
    reason: answer.finishReason(),
    matchedStop: answer.matchedStop,
    usage: {
      inputTokens,
      cachedInputTokens,
      cacheWriteTokens: Math.max(0, markedTokens - cachedInputTokens),
      outputTokens: answer.outputTokens,
      reasoningTokens: answer.reasoningTokens,
    },
    timings: timings({
      queueMs: slotMs - joinedMs,
      prefillMs: decodingMs - slotMs,
      decodeMs: endMs - decodingMs,
    }),
  });
  return stepOf([...events, ...held, end], tokens);
}
