import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Format, Places } from "../../formats/format.ts";
import type { Stats } from "../../stats/stats.ts";
import type { RequestBuffer } from "../../upstream/call/request-buffer.ts";
import type { EventSink } from "../../upstream/call/retry-boundary.ts";
import type { PromptFacts } from "../../upstream/encoded-request.ts";
import type { RoutingHints } from "../../upstream/load-balancing/routing-hints.ts";
import type { Router } from "../../upstream/router.ts";
import type { RequestRecord } from "../record/request-record.ts";
import { answerFailure } from "./answer-failure.ts";
import { AnswerProgress } from "./answer-progress.ts";
import type { RunningAnswer, RunningAnswers } from "./running-answers.ts";

/** What having requests answered works with, whatever their answers are written in. */
export type DispatchDeps = {
  /** Sends the request to an endpoint, again where that fails. */
  readonly router: Router;
  /** The clock of what is measured. */
  readonly clock: Clock;
  /** The statistics in which answers count. */
  readonly stats: Stats;
  /** All answers under way, which end when the service must stop. */
  readonly running: RunningAnswers;
};

/** A request that was checked, translated and paid for. */
export type PaidRequest = {
  /** The format in which the caller is answered. */
  readonly format: Pick<Format, "name" | "fields">;
  /** The catalog id of the model. */
  readonly model: string;
  /** The places in the body of what an engine may refuse. */
  readonly places: Places;
  /** The message for the engine. */
  readonly request: RequestBuffer;
  /** What of the request matters on its way. */
  readonly facts: PromptFacts;
  /** The hints that picking an endpoint may look at. */
  readonly hints: RoutingHints;
  /** The record of the request. */
  readonly record: RequestRecord;
  /** The answer under way, whose signal is aborted when the caller has left or the service must stop. */
  readonly answer: RunningAnswer;
};

/** How an answer is given. */
export type Giving = {
  /** The time that the whole answer may take, in milliseconds from now. */
  readonly timeoutMs: number;
  /** Whether the request may be held while the model has no endpoint, as its caller is shown that it is waited for. */
  readonly mayHold: boolean;
  /** Takes the events of the answer. */
  readonly sink: Omit<EventSink, "wentOn">;
};

/** Has a request answered, and follows its answer for record, limits and statistics. Throws `ApiError`. */
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

/** Counts an answer as one that runs while `give` gives it, and how long ending it took where nobody waited any more. */
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

/** Counts a stream of events as open while `give` writes it, and then by how its answer ended. */
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

/** Counts that a stream begins or ceases to wait for its reader, and tells the record of its request. */
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
