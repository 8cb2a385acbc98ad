import type { FastifyReply } from "fastify";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Format, Head, Prepared } from "../../formats/format.ts";
import type { Stats } from "../../stats/stats.ts";
import type { RoutingHints } from "../../upstream/load-balancing/routing-hints.ts";
import type { Router } from "../../upstream/router.ts";
import type { FlushQueue } from "./flush-queue.ts";
import type { RunningAnswer, RunningAnswers } from "./running-answers.ts";

/** What answering takes beside the request. */
export type AnswerDeps = {
  readonly router: Router;
  readonly queue: FlushQueue;
  readonly clock: Clock;
  readonly stats: Stats;
  readonly timeouts: {
    readonly keepAliveIntervalMs: number;
    readonly headerCommitMs: number;
    readonly clientWriteStallMs: number;
    readonly maxStreamDurationMs: number;
    readonly maxRequestDurationMs: number;
  };
  readonly running: RunningAnswers;
};

/** A checked request on its way to its answer. */
export type Answering = {
  readonly format: Format;
  readonly prepared: Prepared;
  readonly generate: GenerateRequest;
  readonly head: Head;
  readonly hints: RoutingHints;
  readonly reply: FastifyReply;
  /** Aborted when the caller has left or the service must stop. */
  readonly answer: RunningAnswer;
};
