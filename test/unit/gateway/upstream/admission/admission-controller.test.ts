import { describe, expect, test } from "vitest";
import { MAX_HELD_BYTES, PREFILL_WAIT_MS } from "../../../../../gateway/upstream/admission/admission-controller.ts";
import type { Result, SlotRequest } from "../../../../../gateway/upstream/admission/slot-request.ts";
import type { EndpointView } from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import type { RoutingHints } from "../../../../../gateway/upstream/load-balancing/route.ts";
import { WorkLedger } from "../../../../../gateway/upstream/load-balancing/work-ledger.ts";
import { delta, finished, started } from "../../../../support/events/events.ts";
import { HINTS } from "../../../../support/gateway/front-rig.ts";
import { endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";
import { viewedAdmission } from "../../../../support/gateway/upstream/viewed-admission.ts";

/** The size of a prompt that takes 10 s to prefill, at a quarter of a token to a byte. */
const LONG_BYTES = 400_000;
const SHORT_BYTES = 4_000;

type Asked = Partial<Omit<SlotRequest<string>, "hints">> & {
  readonly hints?: Partial<RoutingHints>;
  /** The conversation whose cached prefix the prompt continues. */
  readonly session?: string;
  readonly promptBytes?: number;
};

type Rig = {
  /** The number of slots of each endpoint. */
  readonly slots?: readonly number[];
  readonly circuitBreakers?: object;
  readonly lbPolicy?: string;
};

/** Admission in front of endpoints `e0`, `e1`, … that prefill 10,000 tokens a second. */
function admitting({ slots = [1], circuitBreakers = {}, lbPolicy = "prefix_affinity" }: Rig = {}) {
  const work = new WorkLedger();
  /** The overrides of each endpoint's view, and the number of reads of its load. */
  const given = new Map<string, Partial<EndpointView>>();
  const reads = new Map<string, number>();
  const viewOf = (address: string, count: number): EndpointView => ({
    ...endpointWith({ address, slots: count, ...given.get(address) }),
    get outstandingPrefillTokens() {
      return work.outstanding(address);
    },
    get waiting() {
      reads.set(address, (reads.get(address) ?? 0) + 1);
      return given.get(address)?.waiting ?? 0;
    },
  });
  const addresses = slots.map((_, at) => `e${at}`);
  const settings = { circuitBreakers, lbPolicy };
  const rig = viewedAdmission(
    addresses.map((address, at) => viewOf(address, slots[at] ?? 1)),
    settings,
    work,
  );
  const { admission, clock } = rig;
  const order: string[] = [];
  /** Requests a slot for tenant `name`. */
  const ask = (name: string, { hints, session = name, promptBytes = SHORT_BYTES, ...request }: Asked = {}) => {
    const controller = new AbortController();
    const boundaries = [
      { hash: `${session} head`, bytes: 100, marked: false },
      { hash: `${session} ${promptBytes}`, bytes: promptBytes, marked: false },
    ];
    const route = { shape: { boundaries, lastTurn: undefined }, affinityKey: session, ttlMs: undefined };
    const limits = { tried: new Set<string>(), timeoutMs: 30_000, holdMs: 0, keepsAlive: false, bytes: 0 };
    const asked = {
      route,
      tenant: name,
      hints: { ...HINTS, keyId: name, ...hints },
      underWay: false,
      ...limits,
      ...request,
    };
    let result: Result<string> | undefined;
    void admission.acquire(asked, controller.signal).then((settled) => {
      result = settled;
      order.push(typeof settled === "string" ? `${name}: ${settled}` : name);
    });
    const slot = () => {
      if (result === undefined || typeof result === "string") throw new Error(`${name} has no slot: ${result}`);
      return result;
    };
    return {
      /** The address of its endpoint, or the reason of its refusal; undefined while it waits. */
      get result() {
        return typeof result === "object" ? result.member : result;
      },
      get overdue() {
        return slot().overdue;
      },
      /** The prompt is prefilled, and the answer begins. */
      prefilled: () => slot().observer?.see([started({ inputTokens: promptBytes / 4 }), delta(0, "a")]),
      /** The answer is complete; the engine has counted tokens of the prompt. */
      answered: () => slot().observer?.see([finished()]),
      end: () => slot().release(),
      leave: () => controller.abort(),
    };
  };
  const fill = async (name: string, count: number) => {
    const all = Array.from({ length: count }, () => ask(name));
    await clock.advance(0);
    return all;
  };
  /** Changes an endpoint, as its report or health does. */
  const change = async (address: string, changed: Partial<EndpointView>) => {
    given.set(address, { ...given.get(address), ...changed });
    rig.change(viewOf(address, slots[addresses.indexOf(address)] ?? 1));
    await clock.advance(0);
  };
  return { ...rig, addresses, order, ask, fill, change, reads };
}

const resultsOf = (asked: readonly { readonly result: string | undefined }[]) => asked.map(({ result }) => result);

describe("slots", () => {
  test.each([
    [{ slots: [4, 2] }, 6],
    [{ slots: [4, 2], circuitBreakers: { maxRequestsPerEndpoint: 1 } }, 2],
  ])("%j: as many run at once, on each endpoint up to its limit, and each release admits one", async (rig, most) => {
    const { ask, fill, admission, clock } = admitting(rig);
    const running = await fill("a", most);
    const waiting = ask("a");
    await clock.advance(0);
    expect([admission.active, admission.pending, waiting.result]).toEqual([most + 1, 1, undefined]);
    running[0]?.end();
    running[0]?.end();
    await clock.advance(0);
    expect([admission.active, admission.pending, waiting.result]).toEqual([most, 0, running[0]?.result]);
  });

  test.each([
    ...[{ slots: 4, waiting: 5 }, { slots: 64, waiting: 64 }, { kvUse: 0.95 }, { draining: true }],
    ...[{ healthy: false }, { ejected: true }, { compatible: false }],
  ])("an endpoint with %j gets none", async (full) => {
    const { ask, change, clock } = admitting({ slots: [4, 4] });
    await change("e0", full);
    const asked = [ask("a"), ask("b"), ask("c")];
    await clock.advance(0);
    expect(resultsOf(asked)).toEqual(["e1", "e1", "e1"]);
  });

  test.each([
    [4_999, 1],
    [5_000, 0],
  ])("%i ms after an endpoint announced to refuse requests for 5 s, %i wait", async (ms, pending) => {
    const { ask, admission, clock } = admitting();
    admission.holdBack("e0", 1_000);
    admission.holdBack("e0", 5_000);
    ask("a");
    await clock.advance(ms);
    expect(admission.pending).toBe(pending);
  });

  test("a hold-back lasts at most a minute", async () => {
    const { ask, admission, clock } = admitting();
    admission.holdBack("e0", 86_400_000);
    const asked = ask("a", { timeoutMs: 90_000 });
    await clock.advance(60_000);
    expect(asked.result).toBe("e0");
  });

  test("an endpoint that left and returned is not held back any more", async () => {
    const { ask, admission, endpointSet, change, clock } = admitting({ slots: [1, 1] });
    admission.holdBack("e0", 5_000);
    endpointSet.delete("e0");
    await change("e0", {});
    const asked = [ask("a"), ask("b")];
    await clock.advance(0);
    expect(new Set(resultsOf(asked))).toEqual(new Set(["e0", "e1"]));
  });

  test("all tried endpoints refuse at once; a leaving one, those that wait for it", async () => {
    const { ask, fill, change, clock, admission } = admitting({ slots: [1, 1] });
    await fill("a", 2);
    const [tried, waiting] = [ask("a", { tried: new Set(["e0", "e1"]) }), ask("a", { tried: new Set(["e1"]) })];
    await clock.advance(0);
    expect(resultsOf([tried, waiting])).toEqual(["all_tried", undefined]);
    await change("e0", { draining: true });
    await clock.advance(100);
    expect([waiting.result, admission.pending]).toEqual(["all_tried", 0]);
  });

  test("the remaining capacity is that of the available endpoints and of the queue", async () => {
    const { fill, admission } = admitting({ slots: [2, 1] });
    expect(admission.breakerState()).toMatchObject({ remainingRequests: 3, remainingPending: 12, requestsOpen: false });
    await fill("a", 16);
    const full = { remainingRequests: 0, remainingPending: 0, requestsOpen: true, pendingOpen: true };
    expect(admission.breakerState()).toEqual({ ...full, pendingOverflows: 1 });
  });
});

describe("the queue", () => {
  test("the queue serves tenants in turn and each in order of arrival", async () => {
    const { ask, fill, order, clock } = admitting();
    const [running] = await fill("x", 1);
    const waiting = ["flood", "flood", "flood", "small"].map((name) => ask(name));
    for (const one of [running, ...waiting, ...waiting]) {
      if (one?.result !== undefined) one.end();
      await clock.advance(0);
    }
    expect(order).toEqual(["x", "small", "flood", "flood", "flood"]);
  });

  test("passes over the queue that find no capacity change no order", async () => {
    const { ask, fill, order, clock } = admitting();
    const [running] = await fill("x", 1);
    const waiting = ["a", "b", "c"].map((name) => ask(name));
    await clock.advance(1_000);
    running?.end();
    for (const one of waiting) {
      await clock.advance(0);
      one.end();
    }
    expect(order).toEqual(["x", "a", "b", "c"]);
  });

  test("the queue serves answers under way first, also behind full limits", async () => {
    const { ask, fill, order, clock } = admitting({ circuitBreakers: { maxPendingRequests: 1 } });
    const [running] = await fill("x", 1);
    ask("a", { hints: { priorityClass: "high" } });
    ask("b", { underWay: true });
    running?.end();
    await clock.advance(0);
    expect(order).toEqual(["x", "b"]);
  });

  test.each([
    ["the key's record", {}, ["a", "a", "a"], ["a: key_overflow"], 2],
    ["all", { maxPendingRequests: 2 }, ["a", "b", "c"], ["c: pending_overflow"]],
    [
      "all, where one of the largest tenant makes room",
      { maxPendingRequests: 2 },
      ["a", "a", "b"],
      ["a: pending_overflow"],
    ],
  ])("the queue of a cluster is bounded for %s", async (_name, circuitBreakers, names, refused, ofKey?: number) => {
    const { ask, fill, order, admission, clock } = admitting({ circuitBreakers });
    await fill("x", 1);
    for (const name of names) ask(name, { hints: { maxPendingRequests: ofKey } });
    await clock.advance(0);
    expect(order.slice(1)).toEqual(refused);
    expect([admission.pending, admission.active]).toEqual([2, 3]);
  });

  test("the queue serves requests that wait after an answer to an empty prompt, of which engines count tokens, too", async () => {
    const { ask, fill, clock } = admitting();
    const empty = ask("a", { promptBytes: 0 });
    await clock.advance(0);
    empty.answered();
    empty.end();
    const [running] = await fill("a", 1);
    const waiting = ask("b");
    running?.end();
    await clock.advance(0);
    expect(waiting.result).toBe("e0");
  });

  test("the queue ends a wait at its timeout, when the caller leaves, and when the cluster closes", async () => {
    const { ask, fill, order, admission, clock } = admitting();
    await fill("x", 1);
    const leaving = ask("leaves");
    ask("late", { timeoutMs: 5_000 });
    ask("stays");
    leaving.leave();
    expect(admission.pending).toBe(2);
    await clock.advance(4_999);
    expect(order).toEqual(["x", "leaves: pending_timeout"]);
    await clock.advance(101);
    expect(order.at(-1)).toBe("late: pending_timeout");
    admission.close();
    await clock.advance(0);
    expect(order.at(-1)).toBe("stays: no_endpoints");
    expect(admission.active).toBe(1);
  });

  test("the queue is bounded for a key whose record has no number, by 32", async () => {
    const { fill, order, admission } = admitting({ circuitBreakers: { maxPendingRequests: 64 } });
    await fill("a", 1 + 33);
    expect(order).toEqual(["a", "a: key_overflow"]);
    expect([admission.pending, admission.active]).toEqual([32, 33]);
  });

  test("many may wait on one signal without a warning", async () => {
    const { ask, clock, admission } = admitting({
      circuitBreakers: { maxPendingRequests: 200 },
    });
    const warnings: string[] = [];
    const note = ({ name }: Error) => warnings.push(name);
    process.on("warning", note);
    for (let count = 0; count < 101; count += 1) ask("a", { hints: { maxPendingRequests: 200 } });
    await clock.advance(0);
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", note);
    expect([admission.pending, warnings]).toEqual([100, []]);
  });
});

describe("the cap per tenant", () => {
  test("the cap per tenant leaves other tenants the slots that they wanted within the last minute, and half at most", async () => {
    const { ask, fill, admission, clock } = admitting({ slots: [4, 4] });
    for (const one of await fill("other", 2)) one.end();
    const flood = await fill("flood", 16);
    expect(admission.pending).toBe(10);
    // Others do not wait behind those at their cap.
    const others = await fill("other", 2);
    expect(resultsOf(others)).not.toContain(undefined);
    flood[0]?.end();
    others[0]?.end();
    await clock.advance(0);
    expect(admission.pending).toBe(9);
    const third = ask("third");
    await clock.advance(0);
    expect(third.result).toBeDefined();
    others[1]?.end();
    third.end();
    await clock.advance(29_000);
    expect(admission.pending).toBe(10 - 1);
  });

  test("the cap per tenant ends a minute after the last request of another tenant; a single tenant gets all slots", async () => {
    const { fill, admission, clock } = admitting({ slots: [4, 4] });
    for (const one of await fill("other", 8)) one.end();
    await fill("flood", 8);
    expect(admission.pending).toBe(4);
    await clock.advance(60_000);
    const later = await fill("flood", 4);
    expect([admission.active, admission.pending]).toEqual([8, 0]);
    expect(resultsOf(later)).not.toContain(undefined);
  });
});

describe("an outage", () => {
  /** One endpoint, with functions that take it away and bring it back. */
  function withOutage(circuitBreakers: object = {}, holdMs = 120_000) {
    const rig = admitting({ circuitBreakers });
    const lose = () => rig.change("e0", { healthy: false });
    const comeBack = () => rig.change("e0", { healthy: true });
    const hold = (name: string, asked: Asked = {}) => rig.ask(name, { ...asked, holdMs });
    return { ...rig, lose, comeBack, hold };
  }

  test("an outage holds new and waiting requests, and serves them in their order when an endpoint is back", async () => {
    const { hold, fill, lose, comeBack, clock, admission, order } = withOutage();
    const [running] = await fill("x", 1);
    const waited = hold("a");
    await lose();
    running?.end();
    const came = hold("a", { bytes: 7 });
    expect(admission.held).toEqual({ requests: 2, bytes: 7 });
    await clock.advance(119_000);
    await comeBack();
    waited.end();
    await clock.advance(0);
    came.end();
    expect(order).toEqual(["x", "a", "a"]);
    expect([admission.held.requests, admission.active]).toEqual([0, 0]);
  });

  test("an outage refuses at once a request that may not be held; a waiting one keeps its timeout", async () => {
    const { ask, fill, lose, clock, order } = withOutage();
    await fill("x", 1);
    ask("waits");
    await clock.advance(10_000);
    await lose();
    ask("new");
    await clock.advance(19_900);
    expect(order).toEqual(["x", "new: none_available"]);
    await clock.advance(200);
    expect(order.at(-1)).toBe("waits: none_available");
  });

  test.each([
    [60_000, 60_000],
    [0, 0],
  ])("an outage holds for the time of the request: %i", async (holdMs, heldMs) => {
    const { hold, lose, clock, admission } = withOutage({}, holdMs);
    await lose();
    const held = hold("a");
    await clock.advance(Math.max(0, heldMs - 100));
    expect(admission.pending).toBe(Number(heldMs > 0));
    await clock.advance(200);
    expect([held.result, admission.pending]).toEqual(["none_available", 0]);
  });

  test("an outage gives held requests another hold time once an endpoint is back, and later ones the usual timeout", async () => {
    const { hold, ask, fill, lose, comeBack, clock, order } = withOutage();
    await fill("x", 1);
    await lose();
    hold("held", { timeoutMs: 5_000 });
    await clock.advance(118_000);
    await comeBack();
    ask("later", { timeoutMs: 5_000 });
    await clock.advance(5_100);
    expect(order.at(-1)).toBe("later: pending_timeout");
    await clock.advance(114_700);
    expect(order.length).toBe(2);
    await clock.advance(300);
    expect(order.at(-1)).toBe("held: pending_timeout");
  });

  test("an outage allows endpoints that were tried before it", async () => {
    const { hold, lose, comeBack } = withOutage();
    await lose();
    const held = hold("a", { tried: new Set(["e0"]) });
    await comeBack();
    expect(held.result).toBe("e0");
  });

  test("bounds the held bytes, of one tenant half of what others leave; one request of a tenant may have any size that fits", async () => {
    const { hold, lose, clock, admission } = withOutage();
    const bytes = (percent: number) => ({ bytes: (MAX_HELD_BYTES * percent) / 100 });
    await lose();
    const asked = [hold("a", bytes(40)), hold("a", bytes(11)), hold("a", bytes(10)), hold("a", bytes(1))];
    asked.push(hold("b", bytes(51)), hold("c", bytes(50)), hold("d", bytes(1)));
    await clock.advance(0);
    const [no, held] = ["none_available", undefined];
    expect(resultsOf(asked)).toEqual([held, no, held, no, no, held, no]);
    expect(admission.held).toEqual({ requests: 3, bytes: MAX_HELD_BYTES });
    asked[5]?.leave();
    expect(admission.held.requests).toBe(2);
    const more = [hold("b", bytes(20)), hold("b", bytes(6)), hold("b", bytes(5))];
    await clock.advance(0);
    expect(resultsOf(more)).toEqual([held, no, held]);
  });

  test("bounds the held requests, of one tenant half of what others leave, of a key by its record only", async () => {
    const { hold, lose, clock, order, admission } = withOutage({});
    await lose();
    for (let count = 0; count < 257; count += 1) hold("a");
    for (let count = 0; count < 2; count += 1) hold("b", { hints: { maxPendingRequests: 1 } });
    await clock.advance(0);
    expect([admission.held.requests, order]).toEqual([257, ["a: none_available", "b: none_available"]]);
  });
});

describe("the throttle of long prefills", () => {
  const long = { promptBytes: LONG_BYTES, keepsAlive: true };

  test("the throttle of long prefills sends each to another endpoint in the same tick, and the next where one is prefilled", async () => {
    const { ask, clock, addresses } = admitting({ slots: [8, 8] });
    const asked = ["a", "b", "c", "d"].map((session) => ask("t", { ...long, session }));
    const short = ask("t", { session: "short" });
    await clock.advance(1_000);
    expect(new Set(resultsOf(asked.slice(0, 2)))).toEqual(new Set(addresses));
    expect([resultsOf(asked.slice(2)), short.result === undefined]).toEqual([[undefined, undefined], false]);
    asked[0]?.prefilled();
    short.prefilled();
    await clock.advance(1_000);
    expect(resultsOf(asked.slice(2))).toEqual([asked[0]?.result, undefined]);
  });

  test("orders requests by arrival, long ones later by eight times their own prefill", async () => {
    const { ask, clock, order } = admitting({ slots: [8] });
    const asked = (name: string, promptBytes = LONG_BYTES) => ask(name, { ...long, promptBytes, tenant: "t" });
    const first = asked("first");
    await clock.advance(0);
    const waiting = [asked("long", 2 * LONG_BYTES), asked("next")];
    await clock.advance(70_000);
    waiting.push(asked("later"));
    await clock.advance(20_000);
    waiting.push(asked("last"));
    first.prefilled();
    for (const _ of waiting) {
      await clock.advance(1_000);
      for (const one of waiting) if (one.result !== undefined) one.prefilled();
    }
    expect(order).toEqual(["first", "next", "later", "long", "last"]);
  });

  test("the throttle of long prefills lets an overdue request take any idle endpoint, and refuses it after as long again", async () => {
    const { ask, change, clock } = admitting({ slots: [8, 8] });
    const first = ask("t", { ...long, session: "a" });
    await clock.advance(0);
    first.prefilled();
    first.end();
    const home = first.result ?? "";
    await change(home, { waiting: 8 });
    // The other endpoint is idle, but holds nothing of the conversation.
    const again = ask("t", { ...long, session: "a" });
    await clock.advance(PREFILL_WAIT_MS - 100);
    expect(again.result).toBeUndefined();
    await clock.advance(200);
    expect([again.result === home, again.overdue]).toEqual([false, true]);
    const [streamed, whole] = [
      ask("t", { ...long, session: "b" }),
      ask("t", { ...long, session: "c", keepsAlive: false }),
    ];
    await clock.advance(29_900);
    expect(whole.result).toBeUndefined();
    await clock.advance(200);
    expect(whole.result).toBe("pending_timeout");
    await clock.advance(2 * PREFILL_WAIT_MS - 30_200);
    expect(streamed.result).toBeUndefined();
    await clock.advance(200);
    expect(streamed.result).toBe("pending_timeout");
  });

  test("the throttle of long prefills keeps a conversation for the full endpoint that caches it", async () => {
    const { ask, change, clock } = admitting({ slots: [8, 8] });
    const first = ask("t", { ...long, session: "a" });
    await clock.advance(0);
    first.prefilled();
    const home = first.result ?? "";
    await change(home, { waiting: 8 });
    const again = ask("t", { ...long, session: "a" });
    await clock.advance(5_000);
    expect(again.result).toBeUndefined();
    await change(home, { waiting: 0 });
    expect(again.result).toBe(home);
  });

  test("the throttle of long prefills forgets a request whose caller leaves", async () => {
    const { ask, clock, admission } = admitting({ slots: [8] });
    const first = ask("t", { ...long, session: "a" });
    ask("t", { ...long, session: "b" }).leave();
    await clock.advance(1_000);
    expect(admission.pending).toBe(0);
    first.prefilled();
    const next = ask("t", { ...long, session: "c" });
    await clock.advance(0);
    expect(next.result).toBe("e0");
  });

  test("the throttle of long prefills finds 256 waiting requests in a pass; the others follow, and none is lost", async () => {
    const circuitBreakers = { maxPendingRequests: 1_000 };
    const { ask, change, clock, order, admission, reads } = admitting({ slots: [8, 8], circuitBreakers });
    const first = ask("t", { ...long, session: "a" });
    await clock.advance(0);
    first.prefilled();
    first.end();
    const home = first.result ?? "";
    await change(home, { waiting: 8 });
    const names = Array.from({ length: 300 }, (_, at) => `turn ${at}`);
    const turns = names.map((name) => ask(name, { ...long, session: "a", tenant: "t" }));
    await clock.advance(0);
    for (let pass = 0; pass < 3; pass += 1) {
      reads.clear();
      await clock.advance(100);
      expect(reads.get(home)).toBe(256);
    }
    expect([order, admission.pending]).toEqual([["t"], 300]);
    await change(home, { waiting: 0 });
    for (const turn of turns) {
      turn.prefilled();
      turn.end();
      await clock.advance(0);
    }
    expect(order).toEqual(["t", ...names]);
  });
});

test.each([4, 300])("%i full endpoints: an arrival and a freed slot cost one read of one endpoint", async (count) => {
  const slots = Array.from({ length: count }, () => 1);
  const { ask, admission, addresses, clock, reads } = admitting({ slots, lbPolicy: "least_request" });
  for (const address of addresses) admission.holdBack(address, 60_000);
  const readsOf = async (run: () => void) => {
    reads.clear();
    run();
    await clock.advance(0);
    return [...reads.values()].reduce((sum, one) => sum + one, 0);
  };
  const tried = new Set(addresses.slice(0, 1));
  const options = (at: number) => ({ timeoutMs: 3_600_000, tried: at < 3 ? tried : new Set<string>() });
  const waiting: ReturnType<typeof ask>[] = [];
  const arrivals = () => waiting.push(...addresses.map((_, at) => ask(`tenant ${at}`, options(at))));
  expect(await readsOf(arrivals)).toBe(0);
  expect(await readsOf(() => admission.holdBack("e0", 0))).toBeLessThanOrEqual(3);
  // Three have tried it and are skipped.
  expect([waiting[3]?.result, admission.pending]).toEqual(["e0", count - 1]);
  expect(await readsOf(() => waiting[3]?.end())).toBeLessThanOrEqual(3);
});
