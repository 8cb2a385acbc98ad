import { describe, expect, test } from "vitest";
import { InflightBodies, type InflightBody } from "../../../../gateway/overload/inflight-bodies.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const MIB = 1024 * 1024;
const WAIT_MS = 10_000;

function room(maxBytes: number, maxShareOfKey = 1) {
  const clock = new VirtualClock();
  const bodies = new InflightBodies({ maxBytes, maxShareOfKey, maxWaitMs: WAIT_MS, clock });
  const log: string[] = [];
  /** Begins a body that announces `bytes`, and records its outcome by name. */
  const announce = (name: string, tenant: string, bytes: number): InflightBody => {
    const body = bodies.begin(tenant);
    void body.reserve(bytes).then((lack) => log.push(`${name} ${lack ?? "in"}`));
    return body;
  };
  return { clock, bodies, log, announce };
}

test("bodies count together up to the limit as they arrive, and are released", () => {
  const { bodies } = room(100);
  const [one, other] = [bodies.begin("a"), bodies.begin("b")];
  expect([one.add(60), other.add(40), bodies.bytes]).toEqual([undefined, undefined, 100]);
  expect([other.add(1), bodies.bytes]).toEqual(["inflight_body_bytes", 100]);
  one.release();
  one.release();
  const third = bodies.begin("c");
  expect([bodies.bytes, third.add(61), third.add(60), bodies.bytes]).toEqual([
    40,
    "inflight_body_bytes",
    undefined,
    100,
  ]);
  third.release();
  other.release();
  expect(bodies.bytes).toBe(0);
});

test("a large body counts by its announced size at once, a small one by its arrived bytes", async () => {
  const { clock, bodies, announce } = room(3 * MIB);
  const [big, small] = [announce("big", "a", 2 * MIB), announce("small", "a", 1_000)];
  await clock.advance(0);
  expect(bodies.bytes).toBe(2 * MIB);
  expect([big.add(MIB), small.add(600), bodies.bytes]).toEqual([undefined, undefined, 2 * MIB + 600]);
  expect([big.add(MIB), big.add(200), bodies.bytes]).toEqual([undefined, undefined, 2 * MIB + 800]);
  big.release();
  small.release();
  expect(bodies.bytes).toBe(0);
});

describe("a body that finds no room", () => {
  test("waits, unread, until others have gone, in its turn", async () => {
    const { clock, bodies, log, announce } = room(3 * MIB);
    const first = announce("first", "a", 3 * MIB);
    announce("second", "a", 2 * MIB);
    announce("third", "a", MIB);
    await clock.advance(0);
    expect([log, bodies.waiting]).toEqual([["first in"], 2]);
    first.release();
    await clock.advance(0);
    expect([log, bodies.waiting, bodies.bytes]).toEqual([["first in", "second in", "third in"], 0, 3 * MIB]);
  });

  test("is let in in turn with other tenants', however many one of them has", async () => {
    const { clock, log, announce } = room(MIB);
    let running = announce("a0", "a", MIB);
    const waiting = ["a1", "a2", "a3"].map((name) => [name, announce(name, "a", MIB)] as const);
    const all = new Map([...waiting, ["b1", announce("b1", "b", MIB)] as const]);
    for (let turn = 0; turn < 4; turn += 1) {
      running.release();
      await clock.advance(0);
      running = all.get(log.at(-1)?.split(" ")[0] ?? "") ?? running;
    }
    expect(log).toEqual(["a0 in", "a1 in", "b1 in", "a2 in", "a3 in"]);
  });

  test("gets the exhausted budget after its time limit, and counts no bytes", async () => {
    const { clock, bodies, log, announce } = room(3 * MIB);
    announce("first", "a", 3 * MIB);
    announce("late", "b", MIB);
    await clock.advance(WAIT_MS - 1);
    expect(log).toEqual(["first in"]);
    await clock.advance(1);
    expect([log, bodies.waiting, bodies.bytes]).toEqual([["first in", "late inflight_body_bytes"], 0, 3 * MIB]);
  });

  test("blocks no other body when its caller leaves", async () => {
    const { clock, bodies, log, announce } = room(3 * MIB);
    const first = announce("first", "a", 2 * MIB);
    const left = announce("left", "b", 3 * MIB);
    announce("third", "c", MIB);
    await clock.advance(0);
    left.release();
    await clock.advance(0);
    expect([log, bodies.bytes]).toEqual([["first in", "left inflight_body_bytes", "third in"], 3 * MIB]);
    first.release();
    expect(bodies.bytes).toBe(MIB);
  });

  test("and never will fit is refused at once", async () => {
    const { clock, log, announce } = room(MIB);
    announce("huge", "a", MIB + 1);
    await clock.advance(0);
    expect(log).toEqual(["huge inflight_body_bytes"]);
  });

  test("is passed by a small one, for which there is room", async () => {
    const { clock, log, announce } = room(3 * MIB);
    announce("first", "a", 2 * MIB);
    announce("big", "a", 2 * MIB);
    announce("small", "b", 1_000);
    await clock.advance(0);
    expect(log).toEqual(["first in", "small in"]);
  });
});

describe("the share of a tenant", () => {
  test("leaves room for others, and its own bodies wait for each other", async () => {
    const { clock, log, announce } = room(4 * MIB, 0.5);
    const first = announce("a1", "a", 2 * MIB);
    announce("a2", "a", MIB);
    announce("b1", "b", 2 * MIB);
    await clock.advance(0);
    expect(log).toEqual(["a1 in", "b1 in"]);
    first.release();
    await clock.advance(0);
    expect(log.at(-1)).toBe("a2 in");
  });

  test("is the exhausted budget of a body that exceeds it", async () => {
    const { clock, bodies, log, announce } = room(4 * MIB, 0.5);
    const first = announce("a1", "a", 2 * MIB);
    announce("a2", "a", MIB);
    await clock.advance(WAIT_MS);
    expect(log).toEqual(["a1 in", "a2 key_body_bytes"]);
    expect(first.add(2 * MIB)).toBeUndefined();
    expect(first.add(1)).toBe("key_body_bytes");
    expect(bodies.bytes).toBe(2 * MIB);
  });

  test("is one of the free bytes, so that a third tenant finds room beside any two", async () => {
    const { clock, bodies, log, announce } = room(12 * MIB, 0.5);
    for (let body = 0; body < 12; body += 1)
      for (const tenant of ["a", "b"]) announce(`${tenant}${body}`, tenant, MIB / 2);
    await clock.advance(0);
    expect(bodies.bytes).toBe(8 * MIB);
    announce("newcomer", "c", 4 * MIB);
    await clock.advance(0);
    expect(log.at(-1)).toBe("newcomer in");
  });

  test("keeps no single body out", async () => {
    const { clock, log, announce } = room(4 * MIB, 0.5);
    announce("a1", "a", 3 * MIB);
    await clock.advance(0);
    expect(log).toEqual(["a1 in"]);
  });
});
