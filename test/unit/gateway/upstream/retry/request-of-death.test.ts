import { describe, expect, test } from "vitest";
import { RequestsOfDeath } from "../../../../../gateway/upstream/retry/request-of-death.ts";
import { DEFAULT_REQUEST_OF_DEATH } from "../../../../support/gateway/default-settings.ts";

const { denyMs: DENY_MS, suspectMs: SUSPECT_MS, apartMs: APART_MS, mostDeaths: MOST_DEATHS } = DEFAULT_REQUEST_OF_DEATH;

type Change = Partial<typeof DEFAULT_REQUEST_OF_DEATH>;

/** What happens to requests; each death some 50 ms after the endpoint took them up. */
class Story {
  readonly requests: RequestsOfDeath;

  constructor(change: Change = {}) {
    this.requests = new RequestsOfDeath({ ...DEFAULT_REQUEST_OF_DEATH, ...change });
  }

  /** One death of `address` with these requests on it. */
  dies(address: string, digests: readonly string[], nowMs: number, workedMs = 50): this {
    for (const digest of digests) this.requests.killed(digest, { address, workedMs }, nowMs);
    return this;
  }

  is(digest: string, nowMs: number) {
    return this.requests.judge(digest, nowMs);
  }
}

describe("a request that kills engines", () => {
  test("is denied when it killed two", () => {
    const story = new Story().dies("a", ["r"], 0);
    expect(story.is("r", 0)).toBe("allowed");
    story.dies("b", ["r"], 1);
    expect(story.is("r", 1)).toBe("denied");
    expect(story.is("other", 1)).toBe("allowed");
  });

  test("is in doubt where others were lost with it, as soon as they have been told of", () => {
    const { requests } = new Story();
    const late = { address: "a", workedMs: Number.POSITIVE_INFINITY };
    const losses = new Set([requests.killed("r", late, 0)]);
    expect(requests.inDoubt(losses)).toBe(false);
    requests.killed("another", late, 1);
    expect(requests.inDoubt(losses)).toBe(true);
  });

  test.each([
    [SUSPECT_MS - 1, true],
    [SUSPECT_MS, false],
  ])("where another endpoint was lost %i ms before, is in doubt: %s", (laterMs, doubt) => {
    const { requests } = new Story().dies("elsewhere", ["other"], 0);
    const losses = new Set([requests.killed("r", { address: "a", workedMs: 50 }, laterMs)]);
    expect(requests.inDoubt(losses)).toBe(doubt);
  });

  test("is in no doubt by the endpoints that it was lost with itself", () => {
    const { requests } = new Story();
    const losses = new Set([requests.killed("r", { address: "a", workedMs: Number.POSITIVE_INFINITY }, 0)]);
    losses.add(requests.killed("r", { address: "b", workedMs: 50 }, 1));
    expect(requests.inDoubt(losses)).toBe(false);
  });

  test("is not told from a sick endpoint by that one alone", () => {
    const story = new Story();
    for (let nowMs = 0; nowMs < 60_000; nowMs += 6_000)
      expect(story.dies("a", ["r"], nowMs).is("r", nowMs)).toBe("allowed");
  });

  test("is let in again ten minutes after its last kill, with a clean record", () => {
    const story = new Story().dies("a", ["r"], 0).dies("b", ["r"], 1_000);
    expect(story.is("r", 1_000 + DENY_MS - 1)).toBe("denied");
    expect(story.is("r", 1_000 + DENY_MS)).toBe("allowed");
    expect(story.dies("a", ["r"], 1_000 + DENY_MS).is("r", 1_000 + DENY_MS)).toBe("allowed");
  });

  test.each([
    [SUSPECT_MS - 1, "denied"],
    [SUSPECT_MS, "allowed"],
  ])("is suspected for two minutes after its first: with another after %i ms it is %s", (laterMs, verdict) => {
    expect(new Story().dies("a", ["r"], 0).dies("b", ["r"], laterMs).is("r", laterMs)).toBe(verdict);
  });

  test.each([
    [20_000, "denied"],
    [20_001, "allowed"],
  ])("is one that killed within 20 s: with endpoints that worked on it for %i ms it is %s", (workedMs, verdict) => {
    expect(new Story().dies("a", ["r"], 0, workedMs).dies("b", ["r"], 0, workedMs).is("r", 0)).toBe(verdict);
  });

  test("is not one that was answered between two deaths", () => {
    const story = new Story().dies("a", ["r"], 0);
    story.requests.answered("r");
    expect(story.dies("b", ["r"], SUSPECT_MS).is("r", SUSPECT_MS)).toBe("allowed");
    expect(story.dies("c", ["r"], SUSPECT_MS + 1).is("r", SUSPECT_MS + 1)).toBe("denied");
  });

  test("is remembered from its last kill on", () => {
    const story = new Story({ maxEntries: 2 }).dies("a", ["r", "s"], 0).dies("b", ["r"], 0).dies("a", ["t"], 0);
    expect(story.is("r", 0)).toBe("denied");
  });

  test("is forgotten when too many others came after it", () => {
    const story = new Story({ maxEntries: 2 });
    for (const address of ["a", "b"]) story.dies(address, ["r", "s"], 0);
    story.dies("a", ["t"], 4_000);
    expect([story.is("r", 4_000), story.is("s", 4_000)]).toEqual(["allowed", { laterMs: APART_MS - 4_000 }]);
  });
});

describe("requests that went through the same two deaths", () => {
  const both = () => new Story().dies("a", ["r", "s", "t"], 0).dies("b", ["r", "s"], 5_000);

  test("stay away for a moment and may then come again: none of them is known to have killed", () => {
    const story = both();
    for (const digest of ["r", "s"]) {
      expect(story.is(digest, 5_000)).toEqual({ laterMs: APART_MS });
      expect(story.is(digest, 5_000 + APART_MS - 1)).toEqual({ laterMs: 1 });
      expect(story.is(digest, 5_000 + APART_MS)).toBe("allowed");
    }
    expect(story.is("t", 5_000)).toBe("allowed");
  });

  test("are free once they were answered", () => {
    const story = both();
    story.requests.answered("s");
    expect([story.is("r", 5_000), story.is("s", 5_000)]).toEqual([{ laterMs: APART_MS }, "allowed"]);
  });

  test("are denied by the last death that any may go through, however many are in question", () => {
    const story = both();
    let nowMs = 20_000;
    for (let deaths = 3; deaths < MOST_DEATHS; deaths += 1) {
      story.dies("abc"[deaths % 3] ?? "", ["r", "s"], nowMs);
      for (const digest of ["r", "s"]) expect(story.is(digest, nowMs)).toEqual({ laterMs: APART_MS });
      nowMs += 20_000;
    }
    story.dies("d", ["r", "s"], nowMs);
    expect(["r", "s"].map((digest) => story.is(digest, nowMs))).toEqual(["denied", "denied"]);
  });

  test("are not suspected for longer than others are", () => {
    const story = both();
    expect(story.dies("c", ["r"], 5_000 + SUSPECT_MS).is("r", 5_000 + SUSPECT_MS)).toBe("allowed");
  });

  describe("that had no endpoint for itself", () => {
    const shared = () => new Story().dies("a", ["r", "s"], 0).dies("b", ["r", "t"], 1_000);

    test("is kept away, and denied if nothing dies meanwhile", () => {
      const story = shared();
      expect(story.is("r", 1_000)).toEqual({ laterMs: 2 * APART_MS });
      expect(story.is("r", 1_000 + 2 * APART_MS)).toBe("denied");
    });

    test("may come again where endpoints die without it", () => {
      const story = shared().dies("c", ["u"], 2 * APART_MS);
      expect(story.is("r", 2 * APART_MS)).toBe("allowed");
    });
  });

  test("are not those of which one was new to it", () => {
    const story = new Story().dies("a", ["r"], 0).dies("b", ["r", "s"], 1_000);
    expect(["r", "s"].map((digest) => story.is(digest, 1_000))).toEqual(["denied", "allowed"]);
  });
});

describe("a request that was in two of the deaths of some time", () => {
  const two = () => new Story().dies("a", ["r"], 0).dies("b", ["r"], 5_000);

  test.each([
    ["before", -1_000],
    ["between", 2_000],
    ["soon after", 5_000 + APART_MS - 1],
  ])("is not denied where another endpoint died %s them without it", (_when, atMs) => {
    const story = atMs < 0 ? new Story().dies("c", ["x"], 0).dies("a", ["r"], 1_000).dies("b", ["r"], 5_000) : two();
    if (atMs > 0) story.dies("c", ["x"], atMs);
    expect(story.is("r", 5_000)).toEqual({ laterMs: APART_MS });
    expect(story.is("r", 5_000 + APART_MS)).toBe("allowed");
  });

  test("is not one of them for whoever had worked on it for long: that death has another reason", () => {
    expect(two().dies("c", ["old"], 6_000, 60_000).is("r", 6_000)).toEqual({ laterMs: APART_MS - 1_000 });
  });

  test("stays denied when another endpoint dies long after", () => {
    const story = two().dies("c", ["x"], 5_000 + APART_MS);
    expect(story.is("r", 5_000 + APART_MS)).toBe("denied");
  });

  test("is denied where all deaths are its own, however many", () => {
    expect(two().dies("c", ["r"], 20_000).is("r", 20_000)).toBe("denied");
  });
});
