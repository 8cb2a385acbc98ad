import { expect, test } from "vitest";
import { EndpointList } from "../../../../../../gateway/upstream/load-balancing/candidates.ts";
import { HashRing } from "../../../../../../gateway/upstream/load-balancing/hash-ring.ts";
import { pickRingHash } from "../../../../../../gateway/upstream/load-balancing/policies/ring-hash.ts";
import { balancerSettings } from "../../../../../support/gateway/balancer-settings.ts";
import { endpoints, endpointWith } from "../../../../../support/gateway/upstream/endpoint-with.ts";

const POOL = endpoints(4);
const RING = new HashRing(POOL);
const [FIRST = "", SECOND = "", THIRD = ""] = RING.ownersOf("key");

const pick = (pool: typeof POOL, factor = balancerSettings().ringHashLbConfig.hashBalanceFactor) =>
  pickRingHash(new EndpointList(pool), RING, "key", factor)?.address;

test("a key goes to its owner", () => {
  expect(pick(POOL)).toBe(FIRST);
});

test("where the owner is no candidate, the next one takes its keys", () => {
  expect(pick(POOL.filter(({ address }) => address !== FIRST))).toBe(SECOND);
});

test("an owner at its bound is passed over until load evens out", () => {
  const loaded = (requests: Record<string, number>) =>
    POOL.map((endpoint) => ({ ...endpoint, activeRequests: requests[endpoint.address] ?? 0 }));
  // Eight requests with the new one: the bound is 150 % of two.
  expect(pick(loaded({ [FIRST]: 2, [SECOND]: 5 }))).toBe(FIRST);
  expect(pick(loaded({ [FIRST]: 3, [SECOND]: 4 }))).toBe(THIRD);
});

test("no endpoint is ever filled beyond its bound, though all send the same key", () => {
  const requests = new Map<string, number>();
  for (let sent = 1; sent <= 400; sent += 1) {
    const pool = POOL.map((endpoint) => ({ ...endpoint, activeRequests: requests.get(endpoint.address) ?? 0 }));
    const address = pick(pool, 125) ?? "";
    requests.set(address, (requests.get(address) ?? 0) + 1);
    expect(requests.get(address)).toBeLessThanOrEqual(Math.ceil((sent * 1.25) / 4));
  }
  expect(requests.size).toBe(4);
});

test("a heavier endpoint has a higher bound", () => {
  const pool = POOL.map((endpoint) =>
    endpointWith({ address: endpoint.address, weight: endpoint.address === FIRST ? 5 : 1, activeRequests: 4 }),
  );
  expect(pick(pool)).toBe(FIRST);
});

test("there is no pick where nobody is on the ring", () => {
  expect(pick([])).toBeUndefined();
  expect(pick([endpointWith({ address: "new" })])).toBeUndefined();
});
