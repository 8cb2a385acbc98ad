import { describe, expect, test } from "vitest";
import { OutlierDetector } from "../../../../../gateway/upstream/outlier/outlier-detector.ts";
import type { OutlierOutcome } from "../../../../../gateway/upstream/outlier/outlier-outcome.ts";
import { DEFAULT_OUTLIER_DETECTION } from "../../../../support/gateway/default-settings.ts";
import { seededRandom } from "../../../../support/seeded-random.ts";

const BASE_MS = DEFAULT_OUTLIER_DETECTION.baseEjectionTimeMs;

function detector(hosts: number, change: Partial<typeof DEFAULT_OUTLIER_DETECTION> = {}): OutlierDetector {
  const made = new OutlierDetector({ ...DEFAULT_OUTLIER_DETECTION, ...change });
  for (let index = 0; index < hosts; index += 1) made.add(`e${index}`);
  return made;
}

/** The last of these reports' results. */
function report(made: OutlierDetector, address: string, outcomes: readonly OutlierOutcome[], nowMs = 0) {
  return outcomes.map((outcome) => made.report(address, outcome, nowMs)).at(-1);
}

const times = (count: number, outcome: OutlierOutcome) => Array.from({ length: count }, () => outcome);
const fail = (made: OutlierDetector, address: string, nowMs = 0) => report(made, address, times(5, "failure"), nowMs);

describe("consecutive failures", () => {
  test("eject at the fifth", () => {
    const made = detector(3);
    expect(report(made, "e0", times(4, "failure"))).toBeUndefined();
    expect(made.report("e0", "failure", 0)).toEqual({ address: "e0", enforced: true, untilMs: BASE_MS });
    expect(made.isEjected("e0", 0)).toBe(true);
    expect(made.isEjected("e1", 0)).toBe(false);
  });

  test.each([
    ["are interrupted by a success", [...times(4, "failure"), "success", ...times(4, "failure")]],
    ["are not counted from neutral outcomes", times(50, "neutral")],
  ] as const)("%s", (_, outcomes) => {
    const made = detector(3);
    report(made, "e0", outcomes);
    expect(made.isEjected("e0", 0)).toBe(false);
  });

  test("are not interrupted by neutral outcomes", () => {
    const made = detector(3);
    report(made, "e0", [...times(4, "failure"), "neutral", "failure"]);
    expect(made.isEjected("e0", 0)).toBe(true);
  });

  test("may be switched off", () => {
    const made = detector(3, { consecutiveGatewayFailure: 0 });
    expect(report(made, "e0", times(9, "failure"))).toBeUndefined();
  });

  test("of an unknown address are ignored", () => {
    const made = detector(1);
    expect(fail(made, "elsewhere")).toBeUndefined();
    expect(made.isEjected("elsewhere", 0)).toBe(false);
  });
});

describe("an ejection", () => {
  test("ends after its time", () => {
    const made = detector(3);
    fail(made, "e0");
    expect(made.isEjected("e0", BASE_MS - 1)).toBe(true);
    expect(made.isEjected("e0", BASE_MS)).toBe(false);
    expect(made.ejectedUntilMs("e0")).toBe(BASE_MS);
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
    expect(Math.max(...lengths)).toBe(DEFAULT_OUTLIER_DETECTION.maxEjectionTimeMs);
    expect(lengths.at(-1)).toBe(DEFAULT_OUTLIER_DETECTION.maxEjectionTimeMs);
  });

  test("fades, interval by interval, while the endpoint succeeds", () => {
    const made = detector(3);
    fail(made, "e0");
    fail(made, "e0", BASE_MS);
    const nowMs = 3 * BASE_MS + 5_000;
    // One of two has faded: the next is the second in a row again.
    expect(fail(made, "e0", nowMs)?.untilMs).toBe(nowMs + 2 * BASE_MS);
  });

  test("does not fade while it lasts", () => {
    const made = detector(3);
    fail(made, "e0");
    expect(fail(made, "e0", BASE_MS)?.untilMs).toBe(BASE_MS + 2 * BASE_MS);
  });

  test("is not prolonged by calls that began before it", () => {
    const made = detector(3);
    fail(made, "e0");
    expect(fail(made, "e0", 10)).toBeUndefined();
    expect(made.ejectedUntilMs("e0")).toBe(BASE_MS);
    // Nor do they count in its record afterwards.
    expect(made.report("e0", "failure", BASE_MS)).toBeUndefined();
  });

  test("can be ended manually", () => {
    const made = detector(3);
    fail(made, "e0");
    made.uneject("e0");
    expect(made.isEjected("e0", 0)).toBe(false);
    expect(fail(made, "e0")?.untilMs).toBe(BASE_MS);
  });
});

describe("limit on concurrent ejections", () => {
  const ejectAll = (made: OutlierDetector, hosts: number) =>
    Array.from({ length: hosts }, (_, index) => fail(made, `e${index}`)).filter((ejection) => ejection?.enforced)
      .length;

  test.each([
    [1, {}, 1],
    [2, {}, 1],
    [3, {}, 1],
    [4, {}, 2],
    [8, {}, 4],
    [10, { maxEjectionPercent: 10 }, 1],
    [4, { maxEjectionPercent: 10 }, 1],
    [4, { maxEjectionPercent: 100 }, 4],
  ])("of %i hosts with %j: %i", (hosts, change, expected) => {
    expect(ejectAll(detector(hosts, change), hosts)).toBe(expected);
  });

  test("an outlier beyond the limit is reported, but not ejected", () => {
    const made = detector(2);
    fail(made, "e0");
    expect(fail(made, "e1")).toMatchObject({ address: "e1", enforced: false });
    expect(made.isEjected("e1", 0)).toBe(false);
  });

  test("an ejection that ended makes room for another", () => {
    const made = detector(2);
    fail(made, "e0");
    expect(fail(made, "e1", BASE_MS)?.enforced).toBe(true);
  });

  test("an endpoint that left no longer counts", () => {
    const made = detector(4);
    for (const address of ["e0", "e1"]) fail(made, address);
    made.forget("e0");
    expect(fail(made, "e2")?.enforced).toBe(false);
    made.forget("e1");
    expect(fail(made, "e3")?.enforced).toBe(true);
  });
});

describe("an ordered ejection", () => {
  test("holds until it ends or is revoked, also for later endpoints and for the last one", () => {
    const changed: string[] = [];
    const made = new OutlierDetector({ ...DEFAULT_OUTLIER_DETECTION }, (address) => changed.push(address));
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
    expect(made.ejectedUntilMs("e0")).toBe(1_000);
    made.setOrdered(new Map([["e1", 2_000]]), 1_000);
    // Its slow start continues.
    expect(made.ejectedUntilMs("e0")).toBe(1_000);
    made.setOrdered(new Map(), 1_500);
    expect(made.isEjected("e1", 1_500)).toBe(false);
    expect(changed).toEqual(["e0", "e1", "e0", "e1"]);
  });

  test("counts in the ejected share, and outcomes during it are ignored", () => {
    const made = detector(3);
    made.setOrdered(new Map([["e0", 1_000]]), 0);
    expect(fail(made, "e0")).toBeUndefined();
    expect(fail(made, "e1")?.enforced).toBe(false);
    made.setOrdered(new Map(), 1_000);
    expect(fail(made, "e1", 1_000)?.enforced).toBe(true);
  });
});

test("random outcomes never exceed the limit, and all endpoints return", () => {
  const random = seededRandom(4);
  const made = detector(6);
  const outcomes: readonly OutlierOutcome[] = ["success", "failure", "failure", "failure"];
  const out = (nowMs: number) => Array.from({ length: 6 }, (_, index) => made.isEjected(`e${index}`, nowMs));
  let nowMs = 0;
  let most = 0;
  for (let step = 0; step < 5_000; step += 1) {
    nowMs += random() * 100;
    made.report(`e${Math.floor(random() * 6)}`, outcomes[Math.floor(random() * 4)] ?? "success", nowMs);
    most = Math.max(most, out(nowMs).filter(Boolean).length);
  }
  expect(most).toBe(3);
  expect(out(nowMs + DEFAULT_OUTLIER_DETECTION.maxEjectionTimeMs)).not.toContain(true);
});
