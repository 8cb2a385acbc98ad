import { expect, test } from "vitest";
import { PeerGateways } from "../../../../../gateway/upstream/admission/peer-gateways.ts";
import { SessionAccounts } from "../../../../../gateway/upstream/admission/session-accounts.ts";
import { WorkingSets } from "../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/working-sets.ts";

/** A gateway whose first turn that waits is due at `dueMs`. */
function gateway(dueMs: number | undefined) {
  const accounts = new SessionAccounts();
  const conversations = new WorkingSets();
  return { accounts, conversations, peers: new PeerGateways({ accounts, firstDueMs: () => dueMs, conversations }) };
}

/** What a gateway tells that served nothing, whose first turn is due in so many seconds. */
const due = (dueSeconds: number | null) => ({ served: 0, wanted: 0, dueSeconds, sessions: [], conversations: [] });

test("a gateway to which nobody told anything knows nothing of others", () => {
  expect(gateway(0).peers.moreUrgent(0)).toBeUndefined();
});

test.each([
  { own: 60_000, others: [70, null], part: 0 },
  { own: 60_000, others: [50, 70], part: 0.5 },
  { own: 60_000, others: [50, -10], part: 1 },
  { own: undefined, others: [500, null], part: 0.5 },
])("with a turn due at $own and others in $others s, $part of them are more urgent", ({ own, others, part }) => {
  const { peers } = gateway(own);
  peers.tell(0);
  for (const [number, seconds] of others.entries()) peers.hear(`${number}`, due(seconds), 0);
  expect(peers.moreUrgent(0)).toBe(part);
});

test("the newest word of a gateway counts, and for some seconds only", () => {
  const { peers } = gateway(60_000);
  peers.tell(0);
  peers.hear("one", due(10), 0);
  peers.hear("one", due(90), 1_000);
  expect(peers.moreUrgent(16_000)).toBe(0);
  expect(peers.moreUrgent(16_001)).toBeUndefined();
});

test("tells when its first turn is due, and what it served, which the others count", () => {
  const { accounts, peers } = gateway(60_000);
  const other = gateway(undefined);
  accounts.count("s", { served: 3, wanted: 4 }, 50_000);
  expect(peers.tell(50_000)).toMatchObject({ dueSeconds: 10, served: 3, wanted: 4 });
  expect(peers.tell(80_000).dueSeconds).toBe(-20);
  expect(other.peers.tell(0).dueSeconds).toBeNull();
  other.peers.hear("one", peers.tell(50_000), 50_000);
  expect(other.accounts.of("s", 50_000)).toEqual({ served: 3, wanted: 4 });
});

test("tells where it placed conversations, which the others count there", () => {
  const one = gateway(undefined);
  const other = gateway(undefined);
  one.conversations.used("c", "a:1", 1_000, 50_000);
  other.peers.hear("one", one.peers.tell(52_000), 52_000);
  expect(other.conversations.tokensOn("a:1", 52_000)).toBe(1_000);
});

test("tells of no conversations where its policy does not go by them", () => {
  const peers = new PeerGateways({ accounts: new SessionAccounts(), firstDueMs: () => 0, conversations: undefined });
  expect(peers.tell(0).conversations).toEqual([]);
  const told = { conversation: "c", address: "a:1", tokens: 1, ageMs: 0 };
  expect(() => peers.hear("one", { ...due(0), conversations: [told] }, 0)).not.toThrow();
});
