import type { FastifyReply } from "fastify";
import type { EventSink } from "../../upstream/call/commit-gate.ts";
import { failureOf, observer } from "./answer-outcome.ts";
import type { AnswerDeps, Answering } from "./answering.ts";
import { SseStream } from "./sse-stream.ts";

const STREAM_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  // Some proxies gather a response before they pass it on unless told so.
  "x-accel-buffering": "no",
};

/** `stream: true`: frames as the events come. Until the first one that counts, a failure has a status of its own. */
export async function streamedAnswer(answering: Answering, deps: AnswerDeps): Promise<FastifyReply> {
  const { format, prepared, generate, head, hints, reply, answer } = answering;
  const { router, clock, queue, stats, timeouts, running } = deps;
  const { facts } = reply.request;
  const labels = { format: format.name };
  const gaps = stats.gaps.of(prepared.model);
  let pausedAtMs = 0;
  const stream = new SseStream({
    response: reply.raw,
    encoder: prepared.encoder(head),
    // What hooks have set so far, such as the request id: the stream is written past Fastify.
    headers: { ...(reply.getHeaders() as Record<string, string>), ...STREAM_HEADERS },
    queue,
    clock,
    keepAliveIntervalMs: timeouts.keepAliveIntervalMs,
    headerCommitMs: timeouts.headerCommitMs,
    writeStallMs: timeouts.clientWriteStallMs,
    onStall: () => {
      facts.endReason = "slow_reader";
      answer.abort();
    },
    onGap: (gapMs) => {
      gaps.observe(gapMs);
      if (facts.maxGapMs === undefined || gapMs > facts.maxGapMs) facts.maxGapMs = gapMs;
    },
    onPaused: (paused) => {
      if (paused) {
        stats.streamsPaused.inc(labels);
        pausedAtMs = clock.nowMs();
      } else {
        stats.streamsPaused.dec(labels);
        facts.backpressureMs = (facts.backpressureMs ?? 0) + clock.nowMs() - pausedAtMs;
      }
    },
  });
  const observe = observer(facts, prepared.model, clock, stats.live);
  const sink: EventSink = {
    events(events, flow) {
      observe(events);
      stream.events(events, flow);
    },
  };
  stats.streamsActive.inc(labels);
  try {
    await router.dispatch(generate, hints, timeouts.maxStreamDurationMs, sink, facts.trip, answer.signal);
    reply.hijack();
    stream.end();
  } catch (thrown) {
    const error = failureOf(thrown, facts, format, answer, running);
    // Nothing has been sent: the caller gets a real status, and its SDK may try again.
    if (!stream.committed) {
      stream.abandon();
      throw error;
    }
    reply.hijack();
    stream.fail(error);
  } finally {
    stats.streamsActive.dec(labels);
    stats.streamEnd.inc({ ...labels, reason: facts.endReason ?? "complete" });
  }
  return reply;
}
