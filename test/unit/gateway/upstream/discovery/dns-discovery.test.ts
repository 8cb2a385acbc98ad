import { expect, test } from "vitest";
import type { Resolve } from "../../../../../gateway/upstream/discovery/discovery.ts";
import { DnsDiscovery, systemResolve } from "../../../../../gateway/upstream/discovery/dns-discovery.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const REFRESH_MS = 1_000;

/** A host name whose lookups return the test's addresses, an error, or nothing. */
class Name {
  answer: readonly string[] | Error | "silence" = [];
  readonly asked: number[] = [];
  readonly clock = new VirtualClock();
  /** The endpoints after every change. */
  readonly found: (readonly string[])[] = [];
  readonly faults: (string | undefined)[] = [];
  readonly discovery: DnsDiscovery;

  constructor(answer: Name["answer"], address = "engines:50051") {
    this.answer = answer;
    const resolve: Resolve = () => {
      this.asked.push(this.clock.nowMs());
      if (this.answer === "silence") return new Promise(() => {});
      return this.answer instanceof Error ? Promise.reject(this.answer) : Promise.resolve(this.answer);
    };
    this.discovery = new DnsDiscovery(
      { address },
      {
        clock: this.clock,
        random: () => 0.5,
        resolve,
        onEndpoints: (endpoints) => this.found.push(endpoints.map((endpoint) => endpoint.address)),
        onFault: (fault) => this.faults.push(fault),
      },
    );
  }
}

function dnsError(code: string): Error {
  return Object.assign(new Error(`query ${code} engines`), { code });
}

test.each([
  ["IPv4", ["10.0.0.2", "10.0.0.1", "10.0.0.2"], ["10.0.0.1:50051", "10.0.0.2:50051"]],
  ["IPv4 beside IPv6", ["::1", "10.0.0.1"], ["10.0.0.1:50051"]],
  ["IPv6 alone", ["fd00::1", "::1"], ["[::1]:50051", "[fd00::1]:50051"]],
])("every address of one family is an endpoint, each once: %s", async (_, answer, expected) => {
  const name = new Name(answer);
  await name.clock.advance(0);
  expect(name.found).toEqual([expected]);
});

test("a changed answer counts with the next lookup, in any order of addresses", async () => {
  const name = new Name(["10.0.0.1", "10.0.0.2"]);
  await name.clock.advance(0);
  name.answer = ["10.0.0.2", "10.0.0.1"];
  await name.clock.advance(REFRESH_MS);
  expect(name.found).toHaveLength(1);
  name.answer = ["10.0.0.2", "10.0.0.3"];
  await name.clock.advance(REFRESH_MS);
  expect(name.found.slice(1)).toEqual([["10.0.0.2:50051", "10.0.0.3:50051"]]);
});

test.each([
  ["NXDOMAIN", dnsError("ENOTFOUND"), "engines: ENOTFOUND"],
  ["SERVFAIL", dnsError("EAI_AGAIN"), "engines: EAI_AGAIN"],
  ["an empty answer", [], "engines: no addresses"],
  ["silence", "silence", "engines: timeout"],
] as const)("the last good addresses stay through %s, and it is counted", async (_, answer, fault) => {
  const name = new Name(["10.0.0.1"]);
  await name.clock.advance(0);
  name.answer = answer;
  await name.clock.advance(10 * REFRESH_MS);
  expect(name.faults).toEqual([fault]);
  const { successes, failures, rejected, attempts } = name.discovery.status;
  expect(successes).toBe(1);
  expect(failures + rejected).toBeGreaterThan(0);
  expect(failures + rejected + successes).toBe(attempts);
  name.answer = ["10.0.0.1"];
  await name.clock.advance(20 * REFRESH_MS);
  expect(name.faults).toEqual([fault, undefined]);
  expect(name.found).toEqual([["10.0.0.1:50051"]]);
});

test("failing lookups back off up to ten refresh intervals, and return to the normal rate after a success", async () => {
  const name = new Name(dnsError("ENOTFOUND"));
  await name.clock.advance(40_000);
  expect(name.asked).toEqual([0, 1_000, 3_000, 7_000, 15_000, 25_000, 35_000]);
  name.answer = ["10.0.0.1"];
  await name.clock.advance(7_000);
  expect(name.asked.slice(7)).toEqual([45_000, 46_000, 47_000]);
});

test("after closing it neither looks up nor reports", async () => {
  const name = new Name(["10.0.0.1"]);
  name.discovery.close();
  await name.clock.advance(10 * REFRESH_MS);
  expect([name.asked, name.found]).toEqual([[0], []]);
});

test("the system's resolver looks up any number of hosts, brackets removed, and shares concurrent lookups", async () => {
  const resolve = systemResolve();
  const hosts = Array.from({ length: 20 }, (_, index) => `127.0.0.${index + 1}`);
  expect(await Promise.all(hosts.map((host) => resolve(host)))).toEqual(hosts.map((host) => [host]));
  const first = resolve("127.0.0.1");
  expect(resolve("127.0.0.1")).toBe(first);
  await first;
  expect(resolve("127.0.0.1")).not.toBe(first);
  const name = new Name(["::1"], "[::1]:50051");
  await name.clock.advance(0);
  expect(name.found).toEqual([["[::1]:50051"]]);
});

test("a failed lookup fails for all its callers and leaves none waiting", async () => {
  const resolve = systemResolve();
  const wrong = ["a..invalid", "b..invalid", "c..invalid"].map((host) => resolve(host));
  for (const result of await Promise.allSettled(wrong)) expect(result.status).toBe("rejected");
  expect(await resolve("127.0.0.1")).toEqual(["127.0.0.1"]);
});
