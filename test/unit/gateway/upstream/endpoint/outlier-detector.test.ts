import { status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import {
  type CallEnding,
  MAX_EJECTION_MS,
  OutlierDetector,
  type OutlierOutcome,
  outlierOutcome,
} from "../../../../../gateway/upstream/endpoint/outlier-detector.ts";
import { DEFAULT_OUTLIER_DETECTION } from "../../../../support/gateway/default-settings.ts";

const BASE_MS = DEFAULT_OUTLIER_DETECTION.baseEjectionTimeMs;

const ended = (code: status, notReady = false): CallEnding => ({ kind: "status", code, notReady });

test.each([
  ["an answer", { kind: "completed" }, "success"],
  ["a refused connection", { kind: "connect_failure" }, "failure"],
  ["a lost connection", { kind: "reset" }, "failure"],
  ["a stall", { kind: "stalled" }, "failure"],
  ["events out of order", { kind: "protocol_violation" }, "failure"],
  ["another version", { kind: "version_mismatch" }, "failure"],
  ["UNAVAILABLE", ended(status.UNAVAILABLE), "failure"],
  ["INTERNAL", ended(status.INTERNAL), "failure"],
  ["DATA_LOSS", ended(status.DATA_LOSS), "failure"],
  ["UNKNOWN", ended(status.UNKNOWN), "failure"],
  ["a node that drains", ended(status.UNAVAILABLE, true), "neutral"],
  ["a full queue", ended(status.RESOURCE_EXHAUSTED, true), "neutral"],
  ["a bad request", ended(status.INVALID_ARGUMENT), "neutral"],
  ["a prompt that is too long", ended(status.FAILED_PRECONDITION), "neutral"],
  ["the gateway's own deadline", ended(status.DEADLINE_EXCEEDED), "neutral"],
  ["a client that left", { kind: "cancelled" }, "neutral"],
] as const)("%s counts as %j: %s", (_, ending, outcome) => {
  expect(outlierOutcome(ending)).toBe(outcome);
});

function detector(hosts: number, change: Partial<typeof DEFAULT_OUTLIER_DETECTION> = {}): OutlierDetector {
  const made = new OutlierDetector({ ...DEFAULT_OUTLIER_DETECTION, ...change });
  for (let index = 0; index < hosts; index += 1) made.add(`e${index}`);
  return made;
}

/** Returns the last of these reports' results. */
function report(made: OutlierDetector, address: string, outcomes: readonly OutlierOutcome[], nowMs = 0) {
  return outcomes.map((outcome) => made.report(address, outcome, nowMs)).at(-1);
}

const times = (count: number, outcome: OutlierOutcome) => Array.from({ length: count }, () => outcome);
const fail = (made: OutlierDetector, address: string, nowMs = 0) => report(made, address, times(5, "failure"), nowMs);

test.each<[string, readonly OutlierOutcome[], boolean, object?]>([
  ["five failures in a row", times(5, "failure"), true],
  ["four failures", times(4, "failure"), false],
  ["failures that a success interrupts", [...times(4, "failure"), "success", ...times(4, "failure")], false],
  ["failures that a neutral result interrupts", [...times(4, "failure"), "neutral", "failure"], true],
  ["neutral results", times(50, "neutral"), false],
  ["failures while it is switched off", times(9, "failure"), false, { consecutiveGatewayFailure: 0 }],
])("%s: ejected %s", (_, outcomes, ejected, change) => {
  const made = detector(3, change);
  const last = report(made, "e0", outcomes);
  expect(last).toEqual(ejected ? { address: "e0", enforced: true, untilMs: BASE_MS } : undefined);
  expect([made.isEjected("e0", 0), made.isEjected("e1", 0)]).toEqual([ejected, false]);
  expect(fail(made, "elsewhere")).toBeUndefined();
});

describe("an ejection", () => {
  test("an ejection ends after its time, or by hand, with a clean record", () => {
    const made = detector(3);
    fail(made, "e0");
    expect([made.isEjected("e0", BASE_MS - 1), made.isEjected("e0", BASE_MS)]).toEqual([true, false]);
    made.uneject("e0");
    expect(made.isEjected("e0", 0)).toBe(false);
    expect(fail(made, "e0")?.untilMs).toBe(BASE_MS);
  });

  test("H10 lasts longer each time in a row, up to the longest", () => {
    const made = detector(3);
    let nowMs = 0;
    const lengths = Array.from({ length: 30 }, () => {
      const untilMs = fail(made, "e0", nowMs)?.untilMs ?? 0;
      const length = untilMs - nowMs;
      nowMs = untilMs;
      return length;
    });
    expect(lengths.slice(0, 3)).toEqual([BASE_MS, 2 * BASE_MS, 3 * BASE_MS]);
    expect([Math.max(...lengths), lengths.at(-1)]).toEqual([MAX_EJECTION_MS, MAX_EJECTION_MS]);
  });

  test("an ejection is forgotten, interval by interval, while the endpoint is healthy", () => {
    const made = detector(3);
    fail(made, "e0");
    fail(made, "e0", BASE_MS);
    const nowMs = 3 * BASE_MS + 5_000;
    // One of two has faded: the next is the second in a row again.
    expect(fail(made, "e0", nowMs)?.untilMs).toBe(nowMs + 2 * BASE_MS);
  });

  test("an ejection is not prolonged by calls that were running before it", () => {
    const made = detector(3);
    fail(made, "e0");
    expect(fail(made, "e0", 10)).toBeUndefined();
    expect(made.ejectedUntilMs("e0")).toBe(BASE_MS);
    // They do not count in its record afterwards either.
    expect(made.report("e0", "failure", BASE_MS)).toBeUndefined();
  });
});

test.each([
  [1, 1],
  [2, 1],
  [3, 1],
  [4, 2],
  [8, 4],
])("of %i endpoints at most %i are ejected at a time; one above the limit is reported", (hosts, expected) => {
  const made = detector(hosts);
  const ejections = Array.from({ length: hosts }, (_, index) => fail(made, `e${index}`));
  expect(ejections.filter((ejection) => ejection?.enforced)).toHaveLength(expected);
  expect(ejections).not.toContain(undefined);
  if (hosts > 1) expect(made.isEjected(`e${hosts - 1}`, 0)).toBe(false);
});

describe("an ejection by order", () => {
  test("an ejection by order lasts until its end or its revocation, for joining endpoints and the last one, too", () => {
    const changed: string[] = [];
    const made = new OutlierDetector(DEFAULT_OUTLIER_DETECTION, (address) => changed.push(address));
    made.setOrdered(
      new Map([
        ["e0", 1_000],
        ["e1", 2_000],
      ]),
      0,
    );
    made.add("e0");
    made.add("e1");
    expect(["e0", "e1"].map((address) => made.isEjected(address, 999))).toEqual([true, true]);
    expect(made.isEjected("e0", 1_000)).toBe(false);
    made.setOrdered(new Map([["e1", 2_000]]), 1_000);
    // Its slow start goes on.
    expect(made.ejectedUntilMs("e0")).toBe(1_000);
    made.setOrdered(new Map(), 1_500);
    expect(made.isEjected("e1", 1_500)).toBe(false);
    expect(changed).toEqual(["e0", "e1", "e0", "e1"]);
  });

  test("an ejection by order counts in the share that may be ejected; results meanwhile are ignored", () => {
    const made = detector(3);
    made.setOrdered(new Map([["e0", 1_000]]), 0);
    expect(fail(made, "e0")).toBeUndefined();
    expect(fail(made, "e1")?.enforced).toBe(false);
    made.setOrdered(new Map(), 1_000);
    expect(fail(made, "e1", 1_000)?.enforced).toBe(true);
  });
});
