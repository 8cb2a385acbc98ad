import { describe, expect, test } from "vitest";
import type { DnsLookupFamily } from "../../../../../gateway/upstream/discovery/discovery-settings.ts";
import { DnsDiscovery } from "../../../../../gateway/upstream/discovery/dns-discovery.ts";
import type { Resolve } from "../../../../../gateway/upstream/discovery/resolve.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const REFRESH_MS = 1_000;

/** A name with the test's answer: addresses, an error, or none at all. */
class Name {
  answer: readonly string[] | Error | "silence" = [];
  readonly asked: number[] = [];
  readonly clock = new VirtualClock();
  /** The endpoints after every change. */
  readonly told: (readonly string[])[] = [];
  readonly faults: (string | undefined)[] = [];
  readonly discovery: DnsDiscovery;

  constructor(answer: Name["answer"], address = "engines:50051", dnsLookupFamily: DnsLookupFamily = "all") {
    this.answer = answer;
    const resolve: Resolve = () => {
      this.asked.push(this.clock.nowMs());
      if (this.answer === "silence") return new Promise(() => {});
      return this.answer instanceof Error ? Promise.reject(this.answer) : Promise.resolve(this.answer);
    };
    this.discovery = new DnsDiscovery(
      { address, dnsRefreshRateMs: REFRESH_MS, dnsLookupFamily },
      {
        clock: this.clock,
        random: () => 0.5,
        resolve,
        onEndpoints: (endpoints) => this.told.push(endpoints.map((endpoint) => endpoint.address)),
        onFault: (fault) => this.faults.push(fault),
      },
    );
  }
}

function dnsError(code: string): Error {
  return Object.assign(new Error(`query ${code} engines`), { code });
}

test("every address is an endpoint, each once, IPv6 in brackets", async () => {
  const name = new Name(["10.0.0.2", "10.0.0.1", "fd00::1", "10.0.0.2"]);
  await name.clock.advance(0);
  expect(name.told).toEqual([["10.0.0.1:50051", "10.0.0.2:50051", "[fd00::1]:50051"]]);
});

test.each([
  ["all", ["10.0.0.1", "::1"], ["10.0.0.1:50051", "[::1]:50051"]],
  ["v4_preferred", ["::1", "10.0.0.1"], ["10.0.0.1:50051"]],
  ["v4_preferred", ["::1"], ["[::1]:50051"]],
  ["v4_only", ["::1", "10.0.0.1"], ["10.0.0.1:50051"]],
  ["v4_only", ["::1"], undefined],
  ["v6_only", ["10.0.0.1", "::1"], ["[::1]:50051"]],
] as const)("with the family %s, %o are the endpoints %o", async (family, answer, expected) => {
  const name = new Name(answer, undefined, family);
  await name.clock.advance(0);
  expect(name.told).toEqual(expected ? [expected] : []);
});

test("two hundred addresses are two hundred endpoints", async () => {
  const name = new Name(Array.from({ length: 200 }, (_, index) => `10.0.1.${index}`));
  await name.clock.advance(0);
  expect(name.told[0]).toHaveLength(200);
});

test("a changed answer counts with the next lookup, in any order of addresses", async () => {
  const name = new Name(["10.0.0.1", "10.0.0.2"]);
  await name.clock.advance(0);
  name.answer = ["10.0.0.2", "10.0.0.1"];
  await name.clock.advance(REFRESH_MS);
  expect(name.told).toHaveLength(1);
  name.answer = ["10.0.0.2", "10.0.0.3"];
  await name.clock.advance(REFRESH_MS);
  expect(name.told.slice(1)).toEqual([["10.0.0.2:50051", "10.0.0.3:50051"]]);
});

describe("the last good addresses stay", () => {
  test.each([
    ["NXDOMAIN", dnsError("ENOTFOUND"), "engines: ENOTFOUND"],
    ["SERVFAIL", dnsError("EAI_AGAIN"), "engines: EAI_AGAIN"],
    ["an empty answer", [], "engines: no addresses"],
    ["silence", "silence", "engines: timeout"],
  ] as const)("through %s, which is counted", async (_, answer, fault) => {
    const name = new Name(["10.0.0.1"]);
    await name.clock.advance(0);
    name.answer = answer;
    await name.clock.advance(10 * REFRESH_MS);
    expect(name.told).toEqual([["10.0.0.1:50051"]]);
    expect(name.faults).toEqual([fault]);
    const { successes, failures, rejected, attempts } = name.discovery.status;
    expect(successes).toBe(1);
    expect(failures + rejected).toBeGreaterThan(0);
    expect(failures + rejected + successes).toBe(attempts);

    name.answer = ["10.0.0.1"];
    await name.clock.advance(20 * REFRESH_MS);
    expect(name.faults).toEqual([fault, undefined]);
    expect(name.told).toHaveLength(1);
  });
});

test("failing lookups back off to ten refresh intervals, and recover at once", async () => {
  const name = new Name(dnsError("ENOTFOUND"));
  await name.clock.advance(40_000);
  expect(name.asked).toEqual([0, 1_000, 3_000, 7_000, 15_000, 25_000, 35_000]);
  name.answer = ["10.0.0.1"];
  await name.clock.advance(7_000);
  expect(name.asked.slice(7)).toEqual([45_000, 46_000, 47_000]);
});

test("after close there are no lookups and no reports", async () => {
  const name = new Name(["10.0.0.1"]);
  name.discovery.close();
  await name.clock.advance(10 * REFRESH_MS);
  expect(name.asked).toEqual([0]);
  expect(name.told).toEqual([]);
});

test("an address in brackets is looked up without them", async () => {
  const name = new Name(["::1"], "[::1]:50051");
  await name.clock.advance(0);
  expect(name.told).toEqual([["[::1]:50051"]]);
});
