import { describe, expect, test } from "vitest";
import { engineLost } from "../../../../../gateway/errors.ts";
import type { Detail } from "../../../../../gateway/outcome.ts";
import type { UpstreamFailure } from "../../../../../gateway/upstream/call/grpc-error.ts";
import {
  backOffMs,
  type EndpointState,
  type FailedAttempt,
  type Next,
  nextStep,
  type RetryRules,
} from "../../../../../gateway/upstream/retry/retry-policy.ts";

const RULES: RetryRules = { holdMs: 1_000, pendingMs: 300 };

const failure = (detail: Detail, ending: UpstreamFailure["ending"], workedMs?: number): UpstreamFailure => ({
  ...{ error: engineLost(detail), retriable: true, ending, workedMs },
});
const RESET = failure("upstream_reset", { kind: "reset" }, 50);
const UNREACHED = failure("upstream_connect_failure", { kind: "connect_failure" });
const ABORTED = failure("upstream_aborted", { kind: "status", code: 10, notReady: false }, 50);
const DRAINS = failure("upstream_draining", { kind: "status", code: 14, notReady: true });
const REFUSED: UpstreamFailure = { ...ABORTED, retriable: false };
const OTHER_ANSWER: UpstreamFailure = { ...REFUSED, otherAnswer: true };

/** An attempt on an endpoint that ended at once, by default with the loss of the endpoint in its prefill. */
const at = (address: string, more: Partial<FailedAttempt> = {}): FailedAttempt => ({
  ...{ address, failure: RESET, endedMs: 0, committed: false, continued: false, resumed: false },
  ...{ accepted: true, advanced: false, tokens: 0, othersLost: false, jitter: 0, ...more },
});
/** An attempt that ended behind three tokens, of which the client had some. */
const begun = (address: string, more: Partial<FailedAttempt> = {}) =>
  at(address, { committed: true, advanced: true, tokens: 3, ...more });
/** An attempt to continue these tokens that produced nothing. */
const more = (address: string, changes: Partial<FailedAttempt> = {}) =>
  at(address, { committed: true, tokens: 3, continued: true, ...changes });

/** Endpoints by name: `a` is available, `a!` is not; `a~` cannot continue the answer, `a?` has not described itself. */
const cluster = (names: string): EndpointState[] =>
  names.split(" ").map((name) => ({
    address: name.charAt(0),
    available: !name.includes("!"),
    continues: name.includes("?") ? undefined : !name.includes("~"),
  }));

/** Writes a decision as a line: `begin -a` is anywhere but at a, and why an answer is not continued stands in brackets. */
function written(next: Next): string {
  if (next.kind === "wait") return `wait ${next.untilMs}`;
  const why = next.notContinued ? ` (${next.notContinued})` : "";
  if (next.kind === "give_up") return `${next.why}${next.error ? ` ${next.error.detail}` : ""}${why}`;
  const avoided = [...next.avoid].sort().join("");
  const how = `${next.continues ? "continue" : "begin"}${avoided && ` -${avoided}`}`;
  return `${how}${next.underWay ? ", ahead" : ""}, ${next.share}${why}`;
}

type Row = readonly [
  what: string,
  history: readonly FailedAttempt[],
  endpoints: string,
  expected: string,
  more?: Partial<RetryRules> & { readonly nowMs?: number },
];

function decides(rows: readonly Row[]): void {
  for (const [what, history, endpoints, expected, { nowMs = 0, ...rules } = {}] of rows)
    test(what, () => {
      const situation = { nowMs, endpoints: cluster(endpoints), verdict: "allowed" as const };
      expect(written(nextStep(history, situation, { ...RULES, ...rules }))).toBe(expected);
    });
}

describe("a request without any output at the client", () => {
  const abortedAt = (names: string) => [...names].map((name) => at(name, { failure: ABORTED }));
  decides([
    ["begins anywhere", [], "a b", "begin, none"],
    ["is begun anew elsewhere, in the budget", abortedAt("a"), "a b", "begin -a, budget"],
    ["is begun anew as often as configured", abortedAt("ab"), "a b c", "begin -ab, budget"],
    ["is not begun anew more often", abortedAt("abc"), "a b c d", "exhausted upstream_aborted"],
    ["is not begun anew where all have failed it", abortedAt("ab"), "a b", "exhausted upstream_aborted"],
    ["is refused by one for all", [at("a", { failure: REFUSED })], "a b", "exhausted upstream_aborted"],
    ["costs no budget where no endpoint worked on it", [at("a", { failure: DRAINS })], "a b", "begin -a, none"],
    ["waits for the back-off", [at("a", { failure: ABORTED, jitter: 0.5 })], "a b", "wait 25"],
    ["waits longer each time", [...abortedAt("a"), at("b", { failure: ABORTED, jitter: 0.5 })], "a b c", "wait 75"],
    ["goes to the queue where none is available", abortedAt("a"), "a! b!", "begin -a, budget"],
    ["waits for the health checks where no endpoint worked on it", [at("a", { failure: DRAINS })], "a", "wait 250"],
    ["waits for them no longer than 250 ms", [at("a", { failure: DRAINS })], "a", "begin -a, none", { nowMs: 250 }],
  ]);
});

describe("a request that lost endpoints before its first output", () => {
  const lost = (names: string, changes: Partial<FailedAttempt> = { othersLost: true }) =>
    [...names].map((name) => at(name, changes));
  decides([
    ["goes ahead of new ones", lost("a"), "a b", "begin -a, ahead, recovery"],
    ["is begun anew beyond the configured number", lost("abc"), "a b c d", "begin -abc, ahead, recovery"],
    ["is begun anew 16 times", lost("a".repeat(17)), "a b", "exhausted upstream_reset"],
    ["asks the one again that failed first", lost("ab"), "a b", "begin -b, ahead, recovery", { nowMs: 250 }],
    ["asks none again before its loss is noticed", lost("ab"), "a b", "wait 250"],
    ["waits for others where it was alone", lost("ab", {}), "a b c!", "wait 1000"],
    ["goes back to none that it was alone on", [...lost("a", {}), ...lost("b")], "a b", "wait 250"],
    ["nor later", [...lost("a", {}), ...lost("b")], "a b", "begin -a, ahead, recovery", { nowMs: 250 }],
    ["ends where it was alone everywhere", lost("ab", {}), "a b", "exhausted upstream_reset"],
    ["waits no longer than it may", lost("ab", {}), "a b c!", "begin -ab, recovery", { nowMs: 1_000 }],
    [
      "is not retried on and on",
      [at("a"), at("b", { endedMs: 1_000 })],
      "a b c d",
      "begin -ab, budget",
      { nowMs: 1_000 },
    ],
    ["waits where none was reached", lost("a", { failure: UNREACHED }), "a", "wait 250"],
    [
      "counts anew once it has got on",
      [
        ...lost("a"),
        ...lost("b", { othersLost: true, endedMs: 900, advanced: true }),
        ...lost("c", { othersLost: true, endedMs: 1_500 }),
      ],
      "a b c",
      "wait 1750",
      { nowMs: 1_500 },
    ],
    [
      "counts anew each time that it has got on",
      [...lost("a", { advanced: true }), ...lost("b", { advanced: true, othersLost: true, endedMs: 1_500 })],
      "a b c",
      "begin -ab, ahead, recovery",
      { nowMs: 1_500 },
    ],
  ]);
});

describe("an answer that has begun is continued", () => {
  decides([
    ["elsewhere at once", [begun("a")], "a b", "continue -a, ahead, recovery"],
    ["only where it can be", [begun("a")], "a b~ c", "continue -ab, ahead, recovery"],
    [
      "after a back-off where that failed",
      [begun("a"), more("b", { accepted: false, failure: UNREACHED, jitter: 0.5 })],
      "a b c",
      "wait 25",
    ],
    [
      "not where that failed",
      [begun("a"), more("b", { accepted: false, failure: UNREACHED })],
      "a b c",
      "continue -ab, ahead, recovery",
    ],
    ["at the same endpoint where there is no other", [begun("a")], "a", "continue, ahead, recovery", { nowMs: 250 }],
    ["once its loss would be noticed", [begun("a")], "a", "wait 250"],
    ["in the queue where none is available", [begun("a")], "a! b!~", "continue -b, ahead, recovery", { nowMs: 250 }],
    ["later where one that can is away", [begun("a")], "a! b~", "wait 300"],
    ["or may turn out to be able to", [begun("a")], "a~! b? c~", "wait 300"],
    ["not for ever", [begun("a")], "a! b~", "final upstream_reset (no_endpoint)", { nowMs: 300 }],
    [
      "in an outage no longer than it may be held",
      [begun("a")],
      "a!",
      "final upstream_reset (no_endpoint)",
      { nowMs: 1_000 },
    ],
    ["nowhere where none can", [begun("a")], "a~! b~", "final upstream_reset (no_endpoint)"],
    [
      "but is begun anew where the client has nothing",
      [begun("a", { committed: false })],
      "a! b~",
      "begin -a, ahead, recovery (no_endpoint)",
    ],
    ["not where it was not kept", [begun("a", { tokens: 0 })], "a b", "final upstream_reset (not_kept)"],
    ["not where the endpoint refused it", [begun("a", { failure: REFUSED })], "a b", "final upstream_aborted"],
    [
      "not where another refused it",
      [begun("a"), more("b", { failure: REFUSED })],
      "a b c",
      "final upstream_reset (refused)",
    ],
    [
      "not where another gave another answer",
      [begun("a"), more("b", { failure: OTHER_ANSWER })],
      "a b c",
      "final upstream_reset (other_answer)",
    ],
    ["not where it lost two in a row alone", [begun("a"), more("b")], "a b c", "final upstream_reset (lost_too_often)"],
    [
      "not before 10 s where others were lost with it",
      [begun("a"), more("b", { othersLost: true })],
      "a b c",
      "wait 10000",
    ],
    [
      "10 s later where others were lost with it",
      [begun("a"), more("b", { othersLost: true })],
      "a b c",
      "continue -b, ahead, recovery",
      { nowMs: 10_000, holdMs: 20_000 },
    ],
    [
      "where it got on in between",
      [begun("a"), more("b", { advanced: true, resumed: true })],
      "a b c",
      "continue -b, ahead, recovery",
    ],
    [
      "where one had said that it goes",
      [begun("a", { failure: DRAINS }), more("b")],
      "a b c",
      "continue -b, ahead, recovery",
    ],
    [
      "not where six were lost, with others",
      [begun("a"), ...[..."bcdef"].map((name) => more(name, { othersLost: true }))],
      "a b c d e f g",
      "final upstream_reset (lost_too_often)",
    ],
    ["16 times", [..."abcdefghijklmnop"].map((name) => begun(name)), "a b", "continue -p, ahead, recovery"],
    [
      "not 17 times",
      [..."abcdefghijklmnopq"].map((name) => begun(name)),
      "a b",
      "final upstream_reset (lost_too_often)",
    ],
    ["in an outage for as long as it may be held", [begun("a")], "a!", "continue, ahead, recovery", { nowMs: 999 }],
    [
      "later for as long again once it went on",
      [begun("a"), more("b", { advanced: true, resumed: true, endedMs: 5_000 })],
      "a! c~",
      "wait 5300",
      { nowMs: 5_000 },
    ],
  ]);
});

describe("a request that may have killed endpoints", () => {
  const judged = (history: readonly FailedAttempt[], verdict: "denied" | { laterMs: number }, rules = RULES) =>
    written(nextStep(history, { nowMs: 0, endpoints: cluster("a b c"), verdict }, rules));
  test.each<readonly [string, readonly FailedAttempt[], string, string]>([
    ["when it comes", [], "denied", "wait 70"],
    ["that failed otherwise", [at("a", { failure: ABORTED })], "denied", "suspected"],
    ["that lost an endpoint", [at("a")], "denied", "wait 70"],
    ["whose answer would be continued", [begun("a")], "denied (suspected)", "wait 70"],
    ["whose answer is lost", [begun("a", { tokens: 0 })], "denied (not_kept)", "suspected (not_kept)"],
  ])("%s is denied, or waits where it has lost one", (_what, history, denied, suspected) => {
    expect(judged(history, "denied")).toBe(denied);
    expect(judged(history, { laterMs: 70 })).toBe(suspected);
  });
});

test.each([
  [1, 50],
  [2, 150],
  [3, 350],
  [4, 500],
  [60, 500],
])("the back-off before retry %i is anywhere below %i ms", (retry, limitMs) => {
  expect([0, 0.5, 1].map((jitter) => backOffMs(retry, jitter))).toEqual([0, limitMs / 2, limitMs]);
});
