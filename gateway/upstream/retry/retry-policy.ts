import type { ApiError } from "../../errors.ts";
import { OUTCOMES } from "../../outcome.ts";
import type { ContinuationOutcome } from "../../stats/upstream-stats.ts";
import type { UpstreamFailure } from "../call/grpc-error.ts";
import { APART_MS, MOST_DEATHS, MOST_DEATHS_ALONE, type Verdict } from "./death-counter.ts";
import type { RetryShare } from "./retry-budget.ts";

/** The most attempts of a request after the first one, where no endpoint was lost. */
export const MOST_RETRIES = 2;
/** The longest wait before the first retry, in milliseconds; before each further one it more than doubles. */
const BASE_INTERVAL_MS = 50;
const MAX_INTERVAL_MS = 500;
/** The number of endpoints that one request may lose and still be retried or continued. */
const MOST_LOSSES = 16;

/** The time in which health checks detect a lost endpoint, in milliseconds: a failed one is retried only after it. */
export const LOSS_KNOWN_MS = 250;

const NONE: ReadonlySet<string> = new Set();

/** A failed attempt. The list of them is the entire state of the retry policy. */
export type FailedAttempt = {
  readonly address: string;
  readonly failure: UpstreamFailure;
  readonly endedMs: number;
  readonly committed: boolean;
  readonly continued: boolean;
  /** Whether the attempt was to continue an answer, and sent more of it than the client had. */
  readonly resumed: boolean;
  readonly accepted: boolean;
  readonly advanced: boolean;
  /** The number of tokens with which another endpoint could continue the answer; 0 where none could. */
  readonly tokens: number;
  /** Whether other requests, or other endpoints, were lost with it. */
  readonly othersLost: boolean;
  /** A random number over [0, 1), from which the wait after the attempt follows. */
  readonly jitter: number;
};

export type EndpointState = {
  readonly address: string;
  readonly available: boolean;
  /** Whether it can continue the answer; undefined where it has not described the model yet. */
  readonly continues: boolean | undefined;
};

export type Situation = {
  readonly nowMs: number;
  readonly endpoints: readonly EndpointState[];
  readonly verdict: Verdict;
};

export type RetryRules = {
  /** The time for which a request that has lost an endpoint is retried, in milliseconds. */
  readonly holdMs: number;
  readonly pendingMs: number;
};

export type Next =
  | {
      readonly kind: "attempt";
      readonly continues: boolean;
      readonly avoid: ReadonlySet<string>;
      /** Whether the request has lost an endpoint: it is queued ahead of new ones, and is held in an outage. */
      readonly underWay: boolean;
      readonly share: RetryShare;
      /** Why an answer that had begun is not continued; undefined where none had, or it is. */
      readonly notContinued?: ContinuationOutcome | undefined;
    }
  /** The decision is repeated at `untilMs`, or when the endpoints of the cluster change before. */
  | {
      readonly kind: "wait";
      readonly untilMs: number;
      readonly share: RetryShare;
    }
  | {
      readonly kind: "give_up";
      /** `final` and `exhausted`: see `error`. The others: the request may kill endpoints. */
      readonly why: "final" | "exhausted" | "denied" | "suspected";
      readonly error?: ApiError;
      readonly laterMs?: number;
      /** Why an answer that had begun is not continued; undefined where none had. */
      readonly notContinued?: ContinuationOutcome | undefined;
    };

/**
 * Decides the next step of a request by its failed attempts, oldest first. It is a pure function: a wait ends by
 * calling it again.
 *
 * 1. An answer that has begun is continued on another endpoint that can, where there is one in time.
 * 2. Otherwise, an answer of which the client has nothing is restarted on an endpoint that has not failed it,
 *    `MOST_RETRIES` times.
 * 3. A request that loses endpoints is restarted for `holdMs`, also where all endpoints have failed it once, but not
 *    where an endpoint died with this request alone.
 * 4. Every other case ends with the failure.
 */
export function nextStep(history: readonly FailedAttempt[], situation: Situation, rules: RetryRules): Next {
  const { verdict, nowMs } = situation;
  const last = history.at(-1);
  if (!last) {
    if (verdict === "allowed") return FIRST;
    // It may be innocent.
    return verdict !== "denied" ? wait(nowMs + verdict.laterMs, "none") : refusal(verdict);
  }
  const continued = continuation(history, last, situation, rules);
  const next = typeof continued === "object" ? continued : retry(history, last, situation, rules);
  const notContinued = typeof continued === "object" ? undefined : continued;
  if (verdict === "allowed") return next.kind === "wait" ? next : { ...next, notContinued };
  if (verdict === "denied") {
    return { ...refusal(verdict), notContinued: typeof continued === "object" ? "suspected" : continued };
  }
  if (next.kind !== "give_up" && next.share === "recovery") return wait(nowMs + verdict.laterMs, "recovery");
  return { ...refusal(verdict), notContinued };
}

/** Returns the attempt by which the answer was lost: those that failed since sent nothing of it. */
export function lossOf(history: readonly FailedAttempt[]): FailedAttempt | undefined {
  return sinceLoss(history)[0];
}

/** The wait before a retry from 1 on, in milliseconds: Envoy's fully jittered back-off. */
export function backOffMs(retry: number, jitter: number): number {
  return jitter * Math.min(MAX_INTERVAL_MS, (2 ** retry - 1) * BASE_INTERVAL_MS);
}

const FIRST: Next = { kind: "attempt", continues: false, avoid: NONE, underWay: false, share: "none" };

/** Decides how the answer is continued; returns the reason where it is not, and undefined where there is none. */
function continuation(
  history: readonly FailedAttempt[],
  last: FailedAttempt,
  { nowMs, endpoints }: Situation,
  { pendingMs, holdMs }: RetryRules,
): Next | ContinuationOutcome | undefined {
  const broken = sinceLoss(history);
  const [first = last] = broken;
  if ((last.tokens === 0 && !last.committed) || (first === last && !last.failure.retriable)) return undefined;
  const refused = notContinuable(history, last);
  if (refused) return refused;
  const lostInARow = fruitlessLosses(history);
  const apartMs = lostInARow >= MOST_DEATHS_ALONE ? last.endedMs + APART_MS : last.endedMs;
  const attempt = (notBeforeMs: number, avoid: ReadonlySet<string>) =>
    attemptAt(Math.max(apartMs, notBeforeMs), nowMs, { continues: true, avoid, underWay: true, share: "recovery" });
  const unfit = addresses(endpoints.filter(({ continues }) => continues !== true));
  const failed = addresses(broken.slice(broken.findLastIndex(({ accepted }) => accepted)));
  const others = new Set([...unfit, ...failed]);
  const available = endpoints.filter((endpoint) => endpoint.available);
  if (without(available, others)) return attempt(last.endedMs + backOffMs(broken.length - 1, last.jitter), others);
  if (!last.committed && without(available, failedAt(history))) return "no_endpoint";
  const mayCome = endpoints.some(({ continues }) => continues !== false);
  if (!mayCome || nowMs >= first.endedMs + Math.max(pendingMs, holdMs)) return "no_endpoint";
  if (available.length === 0 || without(available, unfit)) return attempt(last.endedMs + LOSS_KNOWN_MS, unfit);
  const untilMs = last.endedMs + pendingMs;
  return nowMs < untilMs ? wait(untilMs, "recovery") : "no_endpoint";
}

function notContinuable(history: readonly FailedAttempt[], last: FailedAttempt): ContinuationOutcome | undefined {
  if (last.tokens === 0) return "not_kept";
  if (last.failure.otherAnswer) return "other_answer";
  if (!last.failure.retriable) return "refused";
  const most = last.othersLost ? MOST_DEATHS : MOST_DEATHS_ALONE;
  const lost = history.filter(({ tokens, accepted }) => tokens > 0 && accepted).length;
  const tooOften = last.accepted && (fruitlessLosses(history) >= most || lost > MOST_LOSSES);
  return tooOften ? "lost_too_often" : undefined;
}

function retry(
  history: readonly FailedAttempt[],
  last: FailedAttempt,
  { nowMs, endpoints }: Situation,
  rules: RetryRules,
): Next {
  const { error, retriable } = last.failure;
  if (last.committed) return { kind: "give_up", why: "final", error: (lossOf(history) ?? last).failure.error };
  const exhausted: Next = { kind: "give_up", why: "exhausted", error };
  if (!retriable && !last.continued) return exhausted;
  const tried = failedAt(history);
  const alone = addresses(history.filter(diedAlone));
  const windowMs = retriedUntilMs(history, rules);
  const recovers = isLoss(last.failure) && last.endedMs < windowMs && without(endpoints, alone);
  const untouched = OUTCOMES[error.detail].untouched ?? false;
  const retries = history.filter(({ continued }) => !continued).length;
  if (retries > (recovers ? MOST_LOSSES : MOST_RETRIES)) return exhausted;
  if (!recovers && !untouched && !without(endpoints, tried)) return exhausted;
  const share = untouched && !recovers ? "none" : recovers ? "recovery" : "budget";
  const underWay = nowMs < windowMs;
  const attempt = (afterMs: number, avoid: ReadonlySet<string>) =>
    attemptAt(last.endedMs + afterMs, nowMs, { continues: false, avoid, underWay, share });
  const available = endpoints.filter((endpoint) => endpoint.available);
  const afterMs = backOffMs(retries, last.jitter);
  if (available.length === 0 || without(available, tried)) return attempt(afterMs, tried);
  if ((recovers || underWay) && without(available, alone)) {
    const latest = new Set([...alone, ...addresses(history.slice(history.length + 1 - available.length))]);
    return attempt(Math.max(afterMs, LOSS_KNOWN_MS), without(available, latest) ? latest : alone);
  }
  if (underWay) return wait(windowMs, share);
  return attempt(untouched ? LOSS_KNOWN_MS : afterMs, tried);
}

/** Returns until when a request is retried that has lost an endpoint, in monotonic milliseconds; 0 where none was. */
function retriedUntilMs(history: readonly FailedAttempt[], { holdMs }: RetryRules): number {
  const sinceLast = history.slice(
    Math.max(
      0,
      history.findLastIndex(({ advanced }) => advanced),
    ),
  );
  const loss = sinceLast.find(({ failure }) => isLoss(failure));
  return loss ? loss.endedMs + holdMs : 0;
}

function isLoss({ ending: { kind } }: UpstreamFailure): boolean {
  return kind === "reset" || kind === "connect_failure" || kind === "stalled";
}

function diedAlone({ failure, othersLost }: FailedAttempt): boolean {
  return isLoss(failure) && failure.workedMs !== undefined && !othersLost;
}

/** Returns the attempt that lost the answer, and those that failed to continue it since. */
function sinceLoss(history: readonly FailedAttempt[]): readonly FailedAttempt[] {
  return history.slice(
    Math.max(
      0,
      history.findLastIndex(({ continued, resumed }) => !continued || resumed),
    ),
  );
}

/** Returns the number of consecutive losses without a new token, excluding endpoints that had announced to leave. */
function fruitlessLosses(history: readonly FailedAttempt[]): number {
  let losses = 0;
  for (const { tokens, accepted, advanced, failure } of history) {
    if (tokens === 0 || !accepted || !failure.retriable) continue;
    if (advanced) losses = 0;
    if (!(failure.ending.kind === "status" && failure.ending.notReady)) losses += 1;
  }
  return losses;
}

function failedAt(history: readonly FailedAttempt[]): ReadonlySet<string> {
  // One that has another prompt may still give a whole answer.
  return addresses(history.filter(({ failure }) => failure.retriable && !failure.otherPrompt));
}

function addresses(some: readonly { readonly address: string }[]): ReadonlySet<string> {
  return new Set(some.map(({ address }) => address));
}

/** Returns whether one of the endpoints is not among `avoid`. */
function without(endpoints: readonly EndpointState[], avoid: ReadonlySet<string>): boolean {
  return endpoints.some(({ address }) => !avoid.has(address));
}

function attemptAt(notBeforeMs: number, nowMs: number, attempt: Omit<Next & { kind: "attempt" }, "kind">): Next {
  return nowMs < notBeforeMs ? wait(notBeforeMs, attempt.share) : { kind: "attempt", ...attempt };
}

function wait(untilMs: number, share: RetryShare): Next {
  return { kind: "wait", untilMs, share };
}

function refusal(verdict: Exclude<Verdict, "allowed">): Next & { kind: "give_up" } {
  if (verdict === "denied") return { kind: "give_up", why: "denied" };
  return { kind: "give_up", why: "suspected", laterMs: verdict.laterMs };
}
