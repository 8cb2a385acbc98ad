import { expect, test } from "vitest";
import { ServedTurn } from "../../../../../gateway/upstream/admission/served-turn.ts";
import { SessionAccounts } from "../../../../../gateway/upstream/admission/session-accounts.ts";
import { SessionService } from "../../../../../gateway/upstream/admission/session-service.ts";
import { delta, finished } from "../../../../support/events/events.ts";

const seconds = (value: number) => ({ seconds: value, nanos: 0 });

/** A turn that came at -3 s and gets its place at 0, expects 4 s of others' prefill and 6 s of its own, and what its session was served. */
function turnOf() {
  const accounts = new SessionAccounts();
  const service = new SessionService(accounts);
  const turn = new ServedTurn({ service, session: "s", aheadMs: 4_000, prefillMs: 6_000, sinceMs: -3_000, beganMs: 0 });
  const at = (nowMs: number) => accounts.of("s", nowMs);
  return { turn, servedAt: (nowMs: number) => at(nowMs).served, wantedAt: (nowMs: number) => at(nowMs).wanted };
}

test("the prefill that is expected counts at once", () => {
  expect(turnOf().servedAt(0)).toBe(6);
});

test.each([
  { told: "nothing", queue: undefined, served: 16 },
  { told: "no wait", queue: 0, served: 20 },
  { told: "a longer wait", queue: 17, served: 3 },
  { told: "a wait beyond its time", queue: 25, served: 0 },
])("in the end all counts but the wait on the node, which tells $told", ({ queue, served }) => {
  const { turn, servedAt } = turnOf();
  const timings = { queue: queue === undefined ? undefined : seconds(queue), prefill: seconds(1), decode: undefined };
  turn.see([delta(0, "a")]);
  turn.see([finished(undefined, {}, { timings })]);
  turn.end(20_000);
  // What was counted at the begin has faded by a fiftieth meanwhile.
  expect(Math.abs(servedAt(20_000) - served)).toBeLessThan(0.2);
});

test("in the end the session wanted to be served since the turn came", () => {
  const { turn, wantedAt } = turnOf();
  expect(wantedAt(20_000)).toBe(0);
  turn.end(20_000);
  expect(wantedAt(20_000)).toBe(23);
});
