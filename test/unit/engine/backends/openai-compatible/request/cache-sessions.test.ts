import { expect, test } from "vitest";
import { CacheSessions } from "../../../../../../engine/backends/openai-compatible/request/cache-sessions.ts";
import { VirtualClock } from "../../../../../support/virtual-clock.ts";

function watched() {
  const clock = new VirtualClock();
  const closed: string[] = [];
  return { clock, closed, sessions: new CacheSessions(clock, (id) => closed.push(id)) };
}

test("a session is closed once, after its last request's time; each request restarts that time", async () => {
  const { clock, closed, sessions } = watched();
  sessions.used("a", 1_000);
  sessions.used("b", 5_000);
  await clock.advance(900);
  sessions.used("a", 2_000);
  await clock.advance(1_999);
  expect(closed).toEqual([]);
  await clock.advance(1);
  expect(closed).toEqual(["a"]);
  await clock.advance(60_000);
  expect(closed).toEqual(["a", "b"]);
});

test("beyond the limit the least recently used session is closed early", () => {
  const { closed, sessions } = watched();
  for (let at = 0; at < 10_000; at += 1) sessions.used(`s${at}`, 1_000);
  sessions.used("s0", 1_000);
  expect(closed).toEqual([]);
  sessions.used("one more", 1_000);
  expect(closed).toEqual(["s1"]);
});
