import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { routeOf } from "../../../../../gateway/upstream/load-balancing/route.ts";
import { HINTS } from "../../../../support/gateway/front-rig.ts";

const digest = (...parts: readonly string[]) =>
  createHmac("sha256", "secret").update(JSON.stringify(parts)).digest("base64url");

type Given = {
  readonly headers?: Record<string, string | readonly string[]>;
  readonly head?: string;
  readonly cacheKey?: string;
  readonly tenant?: string;
};

/** Returns the affinity key of a request by a caller. */
function keyOf({ headers = {}, head = "head", cacheKey = "", tenant = "t" }: Given = {}): string {
  const shape = { boundaries: [{ hash: head, bytes: 1, marked: false }], lastTurn: undefined };
  return routeOf({ shape, ttlMs: undefined, tenant, cacheKey }, { ...HINTS, headers, digest }).affinityKey;
}

test.each(["x-claude-code-session-id", "x-session-affinity", "x-session-id", "session-id", "session_id"])(
  "requests with the same session in %s share a key, whatever their conversation",
  (name) => {
    const key = keyOf({ headers: { [name]: "one" } });
    expect(keyOf({ headers: { [name]: "one" }, head: "other" })).toBe(key);
    expect(keyOf({ headers: { [name]: "two" } })).not.toBe(key);
    expect(key).not.toContain("one");
  },
);

test("the caller's own cache key comes first, as it is", () => {
  expect(keyOf({ cacheKey: "digest", headers: { "x-session-id": "one" } })).toBe("digest");
});

test("the sub-agents of a session have keys of their own", () => {
  const session = { "x-claude-code-session-id": "one" };
  const sub = (id: string) => keyOf({ headers: { ...session, "x-claude-code-agent-id": id } });
  expect(new Set([keyOf({ headers: session }), sub("a"), sub("b")]).size).toBe(3);
});

test("threads of one Codex session have keys of their own", () => {
  const thread = (id: string) => keyOf({ headers: { "session-id": "one", "thread-id": id } });
  expect(thread("a")).not.toBe(thread("b"));
});

test("the first header of the list that is not empty counts", () => {
  const first = keyOf({ headers: { "x-session-id": "one" } });
  expect(keyOf({ headers: { "session-id": "two", "x-session-id": "one" } })).toBe(first);
  expect(keyOf({ headers: { "x-session-id": ["one", "two"] } })).toBe(first);
  expect(keyOf({ headers: { "x-session-id": " ", "session-id": "two" } })).toBe(
    keyOf({ headers: { "session-id": "two" } }),
  );
});

test("without a session the head of the conversation counts, not headers that change with every request", () => {
  const key = keyOf();
  expect(keyOf({ headers: { "x-client-request-id": "r1", "x-claude-code-agent-id": "a" } })).toBe(key);
  expect(keyOf({ head: "other" })).not.toBe(key);
});

test("keys differ by tenant", () => {
  expect(keyOf({ tenant: "u" })).not.toBe(keyOf());
  const headers = { "session-id": "one" };
  expect(keyOf({ tenant: "u", headers })).not.toBe(keyOf({ headers }));
});
