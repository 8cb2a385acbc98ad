import { describe, expect, test } from "vitest";
import { AttemptTimeouts } from "../../../../../gateway/upstream/call/attempt-timeouts.ts";
import type { Timeouts } from "../../../../../gateway/upstream/call/timeouts.ts";
import type { Event } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, delta, started, textStart } from "../../../../support/events/events.ts";
import { DEFAULT_TIMEOUTS } from "../../../../support/gateway/default-settings.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const LIMITS: Timeouts = {
  ...DEFAULT_TIMEOUTS,
  connectMs: 2_000,
  acceptMs: 5_000,
  acceptPerMiBMs: 1_000,
  perTry: { baseMs: 30_000, perThousandTokensMs: 500, maxMs: 600_000 },
  perTryIdleMs: 20_000,
  interTokenMs: 60_000,
};

const progress = (prefilledTokens: number, queuePosition = 0, step = 0): Event => ({
  kind: { $case: "progress", value: { queuePosition, prefilledTokens, step } },
});
const first = delta(0, "a");

/** Advances time by so many milliseconds, passes events of one message, or does what the word says. */
type Step = number | Event | readonly Event[] | ((watch: AttemptTimeouts) => void) | "connects" | `blocked ${number}`;

const begun = (watch: AttemptTimeouts) => watch.handOverBegun();
const taken = (watch: AttemptTimeouts) => watch.handedOver();
const hold = (watch: AttemptTimeouts) => watch.hold();
const resume = (watch: AttemptTimeouts) => watch.resume();
const close = (watch: AttemptTimeouts) => watch.close();

type Call = Partial<Timeouts> & {
  readonly inputTokens?: number;
  readonly bytes?: number;
  /** Whether there is a connection from the beginning. Default: there is. */
  readonly connected?: boolean;
};

/** Returns the limit that expires after these steps, and when; undefined for none within a million seconds. */
async function expiry({ inputTokens = 0, bytes = 0, connected = true, ...change }: Call, steps: readonly Step[]) {
  const clock = new VirtualClock();
  const expired: string[] = [];
  const onExpired = (limit: string) => expired.push(`${limit} at ${clock.nowMs()}`);
  let stands = connected;
  const watch = new AttemptTimeouts(clock, { ...LIMITS, ...change }, { bytes, inputTokens }, () => stands, onExpired);
  for (const step of steps) {
    if (typeof step === "number") await clock.advance(step);
    else if (step === "connects") stands = true;
    else if (typeof step === "string") clock.holdUp(Number(step.slice("blocked ".length)));
    else if (typeof step === "function") step(watch);
    else watch.seen("kind" in step ? [step] : step);
  }
  return expired.join(", ") || undefined;
}

const MIB_30 = 30 * 1024 * 1024;
const LONG = 1_000_000;
const repeated = (steps: (index: number) => readonly Step[], count = 1_000) =>
  Array.from({ length: count }, (_, index) => steps(index)).flat();

describe("the limit on", () => {
  test.each<[what: string, expected: string, call: Call, steps: readonly Step[]]>([
    ["acceptance counts from the hand-over", "accept at 5000", {}, [taken, LONG]],
    ["acceptance of a message that was written later", "accept at 17000", {}, [8_000, begun, 4_000, taken, LONG]],
    ["the connection", "connect at 2000", { connected: false }, [taken, LONG]],
    [
      "the connection leaves the rest for acceptance",
      "accept at 5000",
      { connected: false },
      [taken, 1_900, "connects", LONG],
    ],
    ["a message that waits behind others", "hand_over at 30000", { pendingMs: 30_000 }, [LONG]],
    ["a message that is not written", "hand_over at 13000", { pendingMs: 30_000 }, [8_000, begun, LONG]],
    ["writing grows with the message", "hand_over at 35000", { bytes: MIB_30 }, [begun, LONG]],
    ["acceptance grows with the message", "accept at 69999", { bytes: MIB_30 }, [begun, 34_999, taken, LONG]],
    ["acceptance in a blocked process is extended once", "accept at 7050", {}, [taken, 4_000, "blocked 3000", LONG]],
    ["silence, from a sign of life in the queue", "idle at 24000", {}, [taken, 4_000, progress(0, 1), LONG]],
    ["silence, from the start", "idle at 24000", {}, [taken, 4_000, started(), LONG]],
    ["silence is not reset by repeated progress", "idle at 20000", {}, [progress(5), 10_000, progress(5), LONG]],
    ["silence is not reset by less progress", "idle at 20000", {}, [progress(5), 10_000, progress(4), LONG]],
    ["silence is not reset by the same place", "idle at 20000", {}, [progress(0, 3), 10_000, progress(0, 3), LONG]],
    ["silence is reset by progress", "idle at 30000", {}, [progress(5), 10_000, progress(6), LONG]],
    ["silence is reset by another place", "idle at 30000", {}, [progress(0, 3), 10_000, progress(0, 2), LONG]],
    ["silence is reset by a step", "idle at 30000", {}, [progress(0, 3, 7), 10_000, progress(0, 3, 8), LONG]],
    ["silence after a delta", "idle at 20100", {}, [100, [started(), first], LONG]],
    ["silence, where acceptance had longer", "idle at 1100", { perTryIdleMs: 1_000 }, [100, started(), LONG]],
    [
      "the first delta restarts with progress, and with nothing else",
      "per_try at 45000",
      {},
      [[started(), progress(1)], 15_000, [textStart(0), progress(2)], 15_000, [blockEnd(0), progress(2)], LONG],
    ],
    [
      "the first delta, where acceptance had longer",
      "per_try at 800",
      { perTry: { baseMs: 700, perThousandTokensMs: 0, maxMs: 700 } },
      [100, started(), LONG],
    ],
    [
      "the next delta is not reset by keep-alives",
      "inter_token at 60000",
      {},
      [[started(), first], ...repeated((index) => [10_000, progress(index)], 9), LONG],
    ],
    [
      "the next delta, where acceptance had longer",
      "inter_token at 2100",
      { interTokenMs: 2_000 },
      [100, [started(), first], LONG],
    ],
    [
      "silence restarts when a slow client reads again",
      "idle at 110000",
      {},
      [[started(), first], hold, 90_000, resume, LONG],
    ],
  ])("of the limits of an attempt, %s: %s", async (_what, expected, call, steps) => {
    expect(await expiry(call, steps)).toBe(expected);
  });

  test.each([
    [0, 30_000],
    [40_000, 50_000],
    [10_000_000, 600_000],
  ])("the first delta of %i prompt tokens is %i ms, from the acceptance", async (inputTokens, limitMs) => {
    const steps = repeated(() => [[textStart(0), blockEnd(0)], 10_000], 100);
    expect(await expiry({ inputTokens }, [1_000, ...steps])).toBe(`per_try at ${1_000 + limitMs}`);
  });
});

test.each<[what: string, steps: readonly (readonly Event[])[], waits: boolean]>([
  ["behind others in the queue", [[started()], [progress(0, 2)]], true],
  ["before the first message", [], false],
  ["where it may be the next or run", [[progress(0, 2)], [progress(0)]], false],
  ["behind its first delta", [[progress(0, 2)], [textStart(0), first]], false],
])("a call waits %s: %#", (_what, steps, waits) => {
  const watch = new AttemptTimeouts(
    new VirtualClock(),
    LIMITS,
    { bytes: 0, inputTokens: 0 },
    () => true,
    () => {},
  );
  for (const events of steps) watch.seen(events);
  expect(watch.waits).toBe(waits);
  watch.close();
});

describe("no limit ends", () => {
  test.each<[what: string, steps: readonly Step[]]>([
    ["a call whose answer was unread in a blocked process", [taken, 4_000, "blocked 3000", 0, started(), 10_000]],
    ["a prompt whose tokens advance", repeated((index) => [progress(index), 19_000])],
    ["a prompt whose place in the queue advances", repeated((index) => [progress(0, 10_000 - index), 19_000])],
    ["a prompt while the engine makes steps", repeated((index) => [progress(0, 3, index), 19_000])],
    ["an answer whose deltas keep coming", [started(), ...repeated(() => [first, 19_000])]],
    ["a call whose client reads slowly", [[started(), first], hold, 600_000]],
    ["a call that has ended", [started(), 6_000, close, LONG]],
  ])("no limit of an attempt ends %s", async (_what, steps) => {
    expect(await expiry({}, [taken, ...steps])).toBeUndefined();
  });
});
