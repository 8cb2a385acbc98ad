import { describe, expect, test } from "vitest";
import { AttemptTimeouts } from "../../../../../gateway/upstream/call/attempt-timeouts.ts";
import type { Timeouts } from "../../../../../gateway/upstream/call/timeouts.ts";
import type { Event } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, delta, started, textStart } from "../../../../support/events/events.ts";
import { DEFAULT_TIMEOUTS } from "../../../../support/gateway/default-settings.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const LIMITS: Timeouts = {
  ...DEFAULT_TIMEOUTS,
  acceptMs: 5_000,
  perTry: { baseMs: 30_000, perThousandTokensMs: 500, maxMs: 600_000 },
  perTryIdleMs: 20_000,
  interTokenMs: 60_000,
};

const progress = (prefilledTokens: number, queuePosition = 0, step = 0): Event => ({
  kind: { $case: "progress", value: { queuePosition, prefilledTokens, step } },
});

/** `taken`: the connection has taken the whole message from the beginning. */
function watched(change: Partial<Timeouts> = {}, inputTokens = 0, taken = true, bytes = 0) {
  const clock = new VirtualClock();
  const expired: string[] = [];
  const limits = { ...LIMITS, ...change };
  const connection = { stands: true };
  const onExpired = (limit: string) => expired.push(`${limit} at ${clock.nowMs()}`);
  const watch = new AttemptTimeouts(clock, limits, { bytes, inputTokens }, () => connection.stands, onExpired);
  const seen = (events: readonly Event[]) => watch.seen(events);
  if (taken) watch.handedOver();
  return { clock, watch, seen, expired, connection };
}

describe("each limit, and when it is exceeded", () => {
  test("a call that is not accepted", async () => {
    const { clock, expired } = watched();
    await clock.advance(4_999);
    expect(expired).toEqual([]);
    await clock.advance(1);
    expect(expired).toEqual(["accept at 5000"]);
  });

  test("a late connection; an early one leaves its time to the acceptance", async () => {
    const { clock, expired, connection } = watched({ connectMs: 2_000 });
    connection.stands = false;
    await clock.advance(1_999);
    expect(expired).toEqual([]);
    await clock.advance(1);
    expect(expired).toEqual(["connect at 2000"]);
    const other = watched({ connectMs: 2_000 });
    other.connection.stands = false;
    await other.clock.advance(1_900);
    other.connection.stands = true;
    await other.clock.advance(5_000);
    expect(other.expired).toEqual(["accept at 5000"]);
  });

  test("a message that waits behind others, or is written late, which is not the node's fault", async () => {
    const waiting = watched({ pendingMs: 30_000 }, 0, false);
    await waiting.clock.advance(29_999);
    expect(waiting.expired).toEqual([]);
    await waiting.clock.advance(1);
    expect(waiting.expired).toEqual(["hand_over at 30000"]);

    const written = watched({ pendingMs: 30_000 }, 0, false);
    await written.clock.advance(8_000);
    written.watch.handOverBegun();
    await written.clock.advance(4_999);
    expect(written.expired).toEqual([]);
    await written.clock.advance(1);
    expect(written.expired).toEqual(["hand_over at 13000"]);
  });

  test("a call whose answer may be unread after a stall of this process, once", async () => {
    const { clock, expired } = watched();
    await clock.advance(4_000);
    clock.holdUp(3_000);
    await clock.advance(0);
    expect(expired).toEqual([]);
    await clock.advance(49);
    expect(expired).toEqual([]);
    await clock.advance(1);
    expect(expired).toEqual(["accept at 7050"]);
  });

  test("a call whose unread answer arrives after a stall continues", async () => {
    const { clock, seen, expired } = watched();
    await clock.advance(4_000);
    clock.holdUp(3_000);
    await clock.advance(0);
    seen([started()]);
    await clock.advance(10_000);
    expect(expired).toEqual([]);
  });

  test("a call that is not accepted, counted from the end of its message", async () => {
    const { clock, watch, expired } = watched({}, 0, false);
    await clock.advance(8_000);
    watch.handOverBegun();
    await clock.advance(4_000);
    watch.handedOver();
    await clock.advance(4_999);
    expect(expired).toEqual([]);
    await clock.advance(1);
    expect(expired).toEqual(["accept at 17000"]);
  });

  test("every MiB of a request extends the hand-over and the acceptance", async () => {
    const limits = { acceptMs: 5_000, acceptPerMiBMs: 1_000 };
    const { clock, watch, expired } = watched(limits, 0, false, 30 * 1024 * 1024);
    watch.handOverBegun();
    await clock.advance(34_999);
    expect(expired).toEqual([]);
    watch.handedOver();
    await clock.advance(34_999);
    expect(expired).toEqual([]);
    await clock.advance(1);
    expect(expired).toEqual(["accept at 69999"]);

    const written = watched(limits, 0, false, 30 * 1024 * 1024);
    written.watch.handOverBegun();
    await written.clock.advance(35_000);
    expect(written.expired).toEqual(["hand_over at 35000"]);
  });

  test.each([
    ["the same tokens prefilled", [progress(5), progress(5)]],
    ["fewer tokens prefilled", [progress(5), progress(4)]],
    ["the same place in the queue", [progress(0, 3), progress(0, 3)]],
  ])("%s is no sign of life", async (_what, [first, second]) => {
    const { clock, seen, expired } = watched();
    seen([first as Event]);
    await clock.advance(10_000);
    seen([second as Event]);
    await clock.advance(10_000);
    expect(expired).toEqual(["idle at 20000"]);
  });

  test.each([
    ["more tokens prefilled", [progress(5), progress(6)]],
    ["another place in the queue", [progress(0, 3), progress(0, 2)]],
    ["a step of the engine", [progress(0, 3, 7), progress(0, 3, 8)]],
  ])("%s is a sign of life", async (_what, [first, second]) => {
    const { clock, seen, expired } = watched();
    seen([first as Event]);
    await clock.advance(10_000);
    seen([second as Event]);
    await clock.advance(19_999);
    expect(expired).toEqual([]);
  });

  test.each([
    ["a sign of life in the queue", progress(0, 1)],
    ["the start", started()],
  ])("%s is acceptance; silence from then on is the idle limit", async (_what, event) => {
    const { clock, seen, expired } = watched();
    await clock.advance(4_000);
    seen([event]);
    await clock.advance(19_999);
    expect(expired).toEqual([]);
    await clock.advance(1);
    expect(expired).toEqual(["idle at 24000"]);
  });

  test.each([
    ["its tokens", (index: number) => progress(index)],
    ["its place in the queue", (index: number) => progress(0, 10_000 - index)],
    ["the steps of the engine", (index: number) => progress(0, 3, index)],
  ])("a prompt with advancing %s has unlimited time", async (_what, next) => {
    const { clock, seen, expired } = watched();
    seen([started()]);
    for (let index = 0; index < 1_000; index += 1) {
      seen([next(index)]);
      await clock.advance(19_000);
    }
    expect(expired).toEqual([]);
    await clock.advance(1_000);
    expect(expired).toEqual(["idle at 19001000"]);
  });

  test.each([
    [0, 30_000],
    [40_000, 50_000],
    [10_000_000, 600_000],
  ])("a prompt of %i tokens has %i ms to its first delta, counted from its acceptance", async (tokens, limitMs) => {
    const { clock, seen, expired } = watched({}, tokens);
    await clock.advance(1_000);
    for (let atMs = 0; atMs < limitMs; atMs += 10_000) {
      seen([textStart(0), blockEnd(0)]);
      await clock.advance(Math.min(10_000, limitMs - atMs) - 1);
      expect(expired).toEqual([]);
      await clock.advance(1);
    }
    expect(expired).toEqual([`per_try at ${1_000 + limitMs}`]);
  });

  test("only progress restarts the limit on the first delta", async () => {
    const { clock, seen, expired } = watched();
    seen([started(), progress(1)]);
    await clock.advance(15_000);
    seen([textStart(0), progress(2)]);
    await clock.advance(15_000);
    seen([blockEnd(0), progress(2)]);
    await clock.advance(14_999);
    expect(expired).toEqual([]);
    await clock.advance(1);
    expect(expired).toEqual(["per_try at 45000"]);
  });

  test("signs of life without deltas do not extend the limit between deltas", async () => {
    const { clock, seen, expired } = watched();
    seen([started(), delta(0, "a")]);
    for (let index = 0; index < 6; index += 1) {
      expect(expired).toEqual([]);
      await clock.advance(10_000);
      seen([progress(index)]);
    }
    expect(expired).toEqual(["inter_token at 60000"]);
  });

  test("silence after a delta is the idle limit where that is shorter", async () => {
    const { clock, seen, expired } = watched();
    await clock.advance(100);
    seen([started(), delta(0, "a")]);
    await clock.advance(20_000);
    expect(expired).toEqual(["idle at 20100"]);
  });

  test.each([
    { limit: "inter_token", change: { interTokenMs: 2_000 }, events: [started(), delta(0, "a")], at: 2_100 },
    { limit: "idle", change: { perTryIdleMs: 1_000 }, events: [started()], at: 1_100 },
    {
      limit: "per_try",
      change: { perTry: { baseMs: 700, perThousandTokensMs: 0, maxMs: 700 } },
      events: [started()],
      at: 800,
    },
  ])("$limit applies although an earlier phase would have had longer", async ({ limit, change, events, at }) => {
    const { clock, seen, expired } = watched(change);
    await clock.advance(100);
    seen(events);
    await clock.advance(30_000);
    expect(expired).toEqual([`${limit} at ${at}`]);
  });

  test("continuous deltas never end a call, regardless of its length", async () => {
    const { clock, seen, expired } = watched();
    seen([started()]);
    for (let index = 0; index < 1_000; index += 1) {
      seen([delta(0, "a")]);
      await clock.advance(19_000);
    }
    expect(expired).toEqual([]);
  });
});

describe("while the gateway's own client reads slowly", () => {
  test("silence does not count against the endpoint", async () => {
    const { clock, watch, seen, expired } = watched();
    seen([started(), delta(0, "a")]);
    watch.hold();
    await clock.advance(600_000);
    expect(expired).toEqual([]);
  });

  test("the limits restart when it reads again", async () => {
    const { clock, watch, seen, expired } = watched();
    seen([started(), delta(0, "a")]);
    watch.hold();
    await clock.advance(90_000);
    watch.goOn();
    await clock.advance(19_999);
    expect(expired).toEqual([]);
    await clock.advance(20_000);
    expect(expired).toHaveLength(1);
    expect(expired[0]).toMatch(/^idle/);
  });
});

test("nothing expires after the call, and no timer is left", async () => {
  const { clock, watch, seen, expired } = watched();
  seen([started()]);
  await clock.advance(6_000);
  watch.close();
  await clock.advance(1_000_000);
  expect(expired).toEqual([]);
});
