import { expect, test } from "vitest";
import { checkConfig } from "../../../../../deploy/runtime/config/load-config.ts";
import { clustersSchema } from "../../../../../gateway/upstream/cluster/cluster-settings.ts";
import type { EndpointView } from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { LEAST_MOVED_TOKENS, PrefillPool } from "../../../../../gateway/upstream/prefill/prefill-pool.ts";
import { endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";
import { viewedAdmission } from "../../../../support/gateway/upstream/viewed-admission.ts";

const UNREAD = 20_000;
const ANSWERING = endpointWith({ address: "answering" });

type Given = { readonly group?: string; readonly held?: number; readonly reader?: Partial<EndpointView> };

/** Returns whether one prefill node reads a prompt of which `unread` tokens are unread where it is answered. */
function isRead(unread: number, { group = "g", held = 0, reader = {} }: Given = {}): boolean {
  const member = (address: string) => ({ description: { handOverGroup: address === "reading" ? group : "g" } });
  const { admission, endpointSet } = viewedAdmission([endpointWith({ address: "reading", ...reader })]);
  const pool = new PrefillPool({ member }, { admission, cluster: { endpointSet, member } }, LEAST_MOVED_TOKENS);
  // Before any measurement a token counts as four bytes; the prefill node holds nothing.
  const boundaries = [{ hash: "h", bytes: 4 * (unread + held), marked: false }];
  const route = { shape: { boundaries, lastTurn: undefined }, affinityKey: "", ttlMs: undefined };
  const slot = pool.take({ endpoint: ANSWERING, uncachedTokens: unread }, { route, tenant: "t" });
  expect(slot === undefined || endpointSet.running === 1).toBe(true);
  slot?.release();
  expect(endpointSet.running).toBe(0);
  return slot !== undefined;
}

test("a prompt is read elsewhere where much of it is unread, and not half as much more there", () => {
  expect(isRead(LEAST_MOVED_TOKENS)).toBe(false);
  expect(isRead(LEAST_MOVED_TOKENS + 1_000)).toBe(true);
  expect(isRead(UNREAD, { held: 0.4 * UNREAD })).toBe(true);
  expect(isRead(UNREAD, { held: 0.6 * UNREAD })).toBe(false);
});

test("no prompt waits for a prefill node, nor goes to one of another group", () => {
  for (const reader of [{ outstandingPrefillTokens: 30_000 }, { healthy: false }, { draining: true }, { kvUse: 1 }])
    expect(isRead(UNREAD, { reader })).toBe(false);
  expect(isRead(UNREAD, { reader: { outstandingPrefillTokens: 10_000 } })).toBe(true);
  for (const group of ["", "other"]) expect(isRead(UNREAD, { group })).toBe(false);
});

test("prefill nodes need the policy that knows the unread part", () => {
  const cluster = (more: object) => [
    { model: "m", endpoints: [{ address: "a:1" }], prefill: { endpoints: [{ address: "b:1" }] }, ...more },
  ];
  expect(() => checkConfig(clustersSchema, cluster({ lbPolicy: "round_robin" }), "test")).toThrow(
    /prefill: needs lbPolicy prefix_affinity, not round_robin/,
  );
  expect(checkConfig(clustersSchema, cluster({}), "test")[0]?.prefill).toMatchObject({ type: "static" });
});
