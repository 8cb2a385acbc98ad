import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type AffinityInput, affinityKey } from "../../../../../gateway/upstream/load-balancing/affinity-key.ts";

const digest = (...parts: readonly string[]) =>
  createHmac("sha256", "secret").update(JSON.stringify(parts)).digest("base64url");

const keyOf = (given: Partial<AffinityInput> = {}) =>
  affinityKey({ cacheKey: "", headers: {}, tenant: "t", conversationHead: "head", ...given }, digest);

describe("affinity key", () => {
  test.each([["x-claude-code-session-id"], ["x-session-affinity"], ["x-session-id"], ["session-id"], ["session_id"]])(
    "is the agent's session in %s",
    (name) => {
      const { source, key } = keyOf({ headers: { [name]: "one" } });
      expect(source).toBe("session");
      expect(keyOf({ headers: { [name]: "one" }, conversationHead: "other" }).key).toBe(key);
      expect(keyOf({ headers: { [name]: "two" } }).key).not.toBe(key);
      expect(key).not.toContain("one");
    },
  );

  test("is the caller's own cache key, unchanged, before any other source", () => {
    const headers = { "x-session-id": "one" };
    expect(keyOf({ cacheKey: "digest", headers })).toMatchObject({ source: "cache_key", key: "digest" });
  });

  test("differs between sub-agents of an agent", () => {
    const session = { "x-claude-code-session-id": "one" };
    const sub = (id: string) => keyOf({ headers: { ...session, "x-claude-code-agent-id": id } }).key;
    expect(new Set([keyOf({ headers: session }).key, sub("a"), sub("b")]).size).toBe(3);
  });

  test("comes from the first non-empty header of the list", () => {
    const both = keyOf({ headers: { "session-id": "two", "x-session-id": "one" } }).key;
    expect(both).toBe(keyOf({ headers: { "x-session-id": "one" } }).key);
    expect(keyOf({ headers: { "x-session-id": " ", "session-id": "two" } }).key).toBe(
      keyOf({ headers: { "session-id": "two" } }).key,
    );
    expect(keyOf({ headers: { "x-session-id": ["one", "two"] } }).key).toBe(both);
  });

  test("is the conversation without session headers, whatever per-request headers are present", () => {
    const { source, key } = keyOf({ headers: { "x-client-request-id": "r1", "x-claude-code-agent-id": "a" } });
    expect(source).toBe("conversation");
    expect(keyOf().key).toBe(key);
    expect(keyOf({ conversationHead: "other" }).key).not.toBe(key);
  });

  test("differs between tenants", () => {
    expect(keyOf({ tenant: "u" }).key).not.toBe(keyOf().key);
    const headers = { "session-id": "one" };
    expect(keyOf({ tenant: "u", headers }).key).not.toBe(keyOf({ headers }).key);
  });
});
