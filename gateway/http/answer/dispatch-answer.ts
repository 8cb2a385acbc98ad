import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Format, Places } from "../../formats/format.ts";
import type { Stats } from "../../stats/stats.ts";
import type { RequestBuffer } from "../../upstream/call/request-buffer.ts";
import type { EventSink } from "../../upstream/call/retry-boundary.ts";
import type { PromptFacts } from "../../upstream/encoded-request.ts";
import type { RoutingHints } from "../../upstream/load-balancing/route.ts";
import type { Router } from "../../upstream/router.ts";
import type { RequestRecord } from "../record/request-record.ts";
import { answerFailure } from "./answer-failure.ts";
import { AnswerProgress } from "./answer-progress.ts";
import type { RunningAnswer, RunningAnswers } from "./running-answers.ts";

/** The dependencies of answers, whatever their format. */
export type DispatchDeps = {
  /** Sends the request to an endpoint, with retries. */
  readonly router: Router;
  readonly clock: Clock;
  readonly stats: Stats;
  /** Running answers, which end when the service stops. */
  readonly running: RunningAnswers;
};

/** A request that was checked, translated and charged. */
export type PaidRequest = {
  readonly format: Pick<Format, "name" | "fields">;
  /** Catalog id. */
  readonly model: string;
  /** Positions in the body of the parts that an engine may refuse. */
  readonly places: Places;
  /** The message for the engine. */
  readonly request: RequestBuffer;
  /** What of the request matters on its way. */
  readonly facts: PromptFacts;
  /** Hints for load balancing. */
  readonly hints: RoutingHints;
  readonly record: RequestRecord;
  /** Its signal is aborted when the caller has left or the service stops. */
  readonly answer: RunningAnswer;
};

/** How an answer is delivered. */
export type Giving = {
  /** Time limit of the whole answer, in milliseconds from now. */
  readonly timeoutMs: number;
  /** Whether the request may be held while the model has no endpoint: only if its caller receives signs of life. */
  readonly mayHold: boolean;
  readonly sink: Omit<EventSink, "wentOn">;
};

/** Sends a request to an engine, and follows its answer for record, limits and statistics. Throws `ApiError`. */
export async function dispatchAnswer(paid: PaidRequest, giving: Giving, deps: DispatchDeps): Promise<void> {
  const { model, request, facts, hints, record, answer } = paid;
  const { router, running, stats } = deps;
  const { sink, ...terms } = giving;
  const { deltas } = sink;
  const progress = new AnswerProgress(record, model, stats.live);
  const followed: EventSink = {
    wentOn: () => progress.wentOn(),
    ...sink,
    events(events, flow) {
      progress.see(events);
      sink.events(events, flow);
    },
    ...(deltas && {
      deltas(next, flow) {
        progress.deltas(next.texts.length);
        deltas(next, flow);
      },
    }),
  };
  record.sent();
  try {
    await router.dispatch({ request, facts, hints, sink: followed, record, ...terms }, answer.signal);
  } catch (thrown) {
    throw answerFailure(thrown, paid, running);
  }
}

/** Counts an answer as active while `give` runs; if the caller has left, records how long cancellation took. */
export async function whileActive<Given>(
  { model, answer }: Pick<PaidRequest, "model" | "answer">,
  { clock, stats }: DispatchDeps,
  give: () => Promise<Given>,
): Promise<Given> {
  const live = stats.live.model(model);
  live.active += 1;
  try {
    return await give();
  } finally {
    live.active -= 1;
    const { leftMs } = answer;
    if (leftMs !== undefined) stats.cancelLatency.of().observe((clock.nowMs() - leftMs) / 1000);
  }
}

/** Counts an event stream as open while `give` runs, and then by the outcome of its answer. */
export async function whileStreamed<Given>(
  { format, record }: Pick<PaidRequest, "format" | "record">,
  { stats }: DispatchDeps,
  give: () => Promise<Given>,
): Promise<Given> {
  const labels = { format: format.name };
  stats.streamsActive.inc(labels);
  try {
    return await give();
  } finally {
    stats.streamsActive.dec(labels);
    stats.streamEnd.of(format.name, record.endReason ?? "complete").inc();
  }
}

/** Counts the start or end of a stream's backpressure, and records it. */
export function notePause(
  { format, record }: Pick<PaidRequest, "format" | "record">,
  paused: boolean,
  stats: Stats,
): void {
  const labels = { format: format.name };
  if (paused) {
    stats.streamsPaused.inc(labels);
    record.paused();
  } else {
    stats.streamsPaused.dec(labels);
    record.resumed();
  }
}
