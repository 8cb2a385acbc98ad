import { describe, expect, test } from "vitest";
import type { Admitted, NotAdmitted } from "../../../../gateway/upstream/admission/place-search.ts";
import type { EndpointView } from "../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { WorkLedger } from "../../../../gateway/upstream/load-balancing/work-ledger.ts";
import { delta, started } from "../../../support/events/events.ts";
import { HINTS } from "../../../support/gateway/front-rig.ts";
import { endpointWith } from "../../../support/gateway/upstream/endpoint-with.ts";
import { viewedAdmission } from "../../../support/gateway/upstream/viewed-admission.ts";

/** The bytes of a prompt that takes 10 s to prefill, at a quarter of a token per byte. */
const LONG_BYTES = 400_000;

type Turn = {
  readonly session?: string;
  readonly bytes?: number;
  readonly mayHold?: boolean;
};

/** Admission in front of endpoints that prefill 10,000 tokens per second and take eight requests each. */
function admitting(count: number, circuitBreakers: object = {}) {
  const work = new WorkLedger();
  const waiting = new Map<string, number>();
  /** The number of room checks, by address. */
  const looks = new Map<string, number>();
  const addresses = Array.from({ length: count }, (_, at) => `10.0.0.${at + 1}:1`);
  const viewOf = (address: string): EndpointView => ({
    ...endpointWith({ address }),
    get outstandingPrefillTokens() {
      return work.outstanding(address);
    },
    get waiting() {
      looks.set(address, (looks.get(address) ?? 0) + 1);
      return waiting.get(address) ?? 0;
    },
  });
  const { clock, views, admission } = viewedAdmission(addresses.map(viewOf), { circuitBreakers }, work);
  const order: string[] = [];
  const ask = (name: string, { session = name, bytes = LONG_BYTES, mayHold = true }: Turn = {}) => {
    const controller = new AbortController();
    const boundaries = [
      { hash: `${session} head`, bytes: 100, marked: false },
      { hash: `${session} ${bytes}`, bytes, marked: false },
    ];
    const route = {
      ...{ shape: { boundaries, lastTurn: undefined }, affinityKey: session },
      ttlMs: undefined,
    };
    const request = { route, tenant: "t", hints: HINTS, tried: new Set<string>(), timeoutMs: 30_000, mayHold };
    let place: Admitted<string> | NotAdmitted | undefined;
    void admission.acquire({ ...request, bytes: 0, underWay: false }, controller.signal).then((result) => {
      place = result;
      order.push(name);
    });
    const admitted = () => {
      if (place === undefined || typeof place === "string") throw new Error(`${name} has no place: ${place}`);
      return place;
    };
    return {
      get result() {
        return typeof place === "string" ? place : place?.member;
      },
      get overdue() {
        return admitted().overdue;
      },
      /** The prompt is prefilled, and the answer begins. */
      prefilled: () => admitted().placement?.see([started({ inputTokens: bytes / 4 }), delta(0, "a")]),
      end: () => admitted().release(),
      leave: () => controller.abort(),
    };
  };
  const report = (address: string, count: number) => {
    waiting.set(address, count);
    const view = views.get(address);
    if (view) views.set(view);
  };
  return { clock, admission, addresses, order, ask, report, looks };
}

describe("prompts that need much prefill", () => {
  test("in the same turn each go to another endpoint", async () => {
    const { clock, ask, addresses } = admitting(3);
    const asked = [ask("a"), ask("b"), ask("c")];
    await clock.advance(0);
    expect(new Set(asked.map(({ result }) => result))).toEqual(new Set(addresses));
  });

  test("go to an endpoint one by one, while short ones pass them", async () => {
    const { clock, ask } = admitting(1);
    const [first, second, third] = [ask("a"), ask("b"), ask("c")];
    const little = ask("d", { bytes: 40_000 });
    await clock.advance(1_000);
    expect([first, second, third, little].map(({ result }) => result !== undefined)).toEqual([
      true,
      false,
      false,
      true,
    ]);
    first.prefilled();
    little.prefilled();
    await clock.advance(1_000);
    expect([second.result !== undefined, third.result !== undefined]).toEqual([true, false]);
  });

  test("do not wait where workingSetWaitMs is 0", async () => {
    const { clock, ask } = admitting(1, { workingSetWaitMs: 0 });
    const asked = [ask("a"), ask("b"), ask("c")];
    await clock.advance(0);
    expect(asked.every(({ result }) => result !== undefined)).toBe(true);
  });

  test("are served in the order of arrival, delayed by eight times their own prefill", async () => {
    const { clock, ask, order } = admitting(1);
    const first = ask("first");
    await clock.advance(0);
    const waiting = [ask("long", { bytes: 2 * LONG_BYTES }), ask("next")];
    await clock.advance(70_000);
    waiting.push(ask("later"));
    await clock.advance(20_000);
    waiting.push(ask("last"));
    first.prefilled();
    for (let left = waiting.length; left > 0; left -= 1) {
      await clock.advance(1_000);
      for (const one of waiting) if (one.result !== undefined) one.prefilled();
    }
    expect(order).toEqual(["first", "next", "later", "long", "last"]);
  });

  test("come first after workingSetWaitMs, marked overdue", async () => {
    const { clock, ask, order } = admitting(1, { workingSetWaitMs: 60_000 });
    const first = ask("first", { session: "much" });
    await clock.advance(0);
    const late = ask("late", { session: "much", bytes: LONG_BYTES + 4 });
    await clock.advance(59_000);
    const fresh = ask("fresh");
    await clock.advance(2_000);
    first.prefilled();
    await clock.advance(1_000);
    late.prefilled();
    await clock.advance(1_000);
    expect(order).toEqual(["first", "late", "fresh"]);
    expect([late.overdue, fresh.overdue]).toEqual([true, false]);
  });

  test("are refused after twice that time; without keep-alives after pendingTimeoutMs", async () => {
    const { clock, ask, admission } = admitting(1, { workingSetWaitMs: 60_000 });
    ask("first");
    const [streamed, whole] = [ask("streamed"), ask("whole", { mayHold: false })];
    await clock.advance(29_000);
    expect(whole.result).toBeUndefined();
    await clock.advance(2_000);
    expect(whole.result).toBe("pending_timeout");
    await clock.advance(88_000);
    expect(streamed.result).toBeUndefined();
    await clock.advance(2_000);
    expect(streamed.result).toBe("pending_timeout");
    expect(admission.pending).toBe(0);
  });

  test("leave the queue with their callers, and delay no other request afterwards", async () => {
    const { clock, ask, admission } = admitting(1);
    const first = ask("first");
    const left = ask("left");
    await clock.advance(1_000);
    left.leave();
    await clock.advance(0);
    expect(admission.pending).toBe(0);
    first.prefilled();
    const next = ask("next");
    await clock.advance(0);
    expect(next.result).toBeDefined();
  });
});

/** Has session "a" served by an endpoint, which is full afterwards. Resolves to its address. */
async function fullHome({ clock, ask, report }: ReturnType<typeof admitting>): Promise<string> {
  const first = ask("first", { session: "a" });
  await clock.advance(0);
  first.prefilled();
  const home = first.result ?? "";
  first.end();
  report(home, 8);
  return home;
}

test("a conversation waits for the full endpoint that has it cached", async () => {
  const rig = admitting(2);
  const { clock, ask, report } = rig;
  const home = await fullHome(rig);
  const again = ask("again", { session: "a" });
  await clock.advance(5_000);
  expect(again.result).toBeUndefined();
  report(home, 0);
  await clock.advance(200);
  expect(again.result).toBe(home);
});

test("a turn examines 256 waiting requests; the rest follow, and none is lost", async () => {
  const rig = admitting(2, { maxPendingRequests: 1_000, maxPendingRequestsPerKey: 1_000 });
  const { clock, ask, report, looks, order, admission } = rig;
  const home = await fullHome(rig);
  // The other endpoint always has room, so that every request's turn is evaluated.
  const names = Array.from({ length: 300 }, (_, at) => `turn ${at}`);
  const turns = names.map((name) => ask(name, { session: "a" }));
  await clock.advance(0);
  for (let turn = 0; turn < 3; turn += 1) {
    looks.clear();
    await clock.advance(100);
    expect(looks.get(home)).toBe(256);
  }
  expect([order, admission.pending]).toEqual([["first"], 300]);
  report(home, 0);
  await clock.advance(0);
  for (const turn of turns) {
    turn.prefilled();
    turn.end();
    await clock.advance(0);
  }
  expect(order).toEqual(["first", ...names]);
  expect(admission.pending).toBe(0);
});
