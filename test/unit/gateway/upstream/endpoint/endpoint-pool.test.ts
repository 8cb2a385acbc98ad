import { credentials } from "@grpc/grpc-js";
import { pino } from "pino";
import { afterEach, describe, expect, test } from "vitest";
import { EndpointPool } from "../../../../../gateway/upstream/endpoint/endpoint-pool.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const pools: EndpointPool[] = [];
afterEach(() => {
  for (const pool of pools.splice(0)) pool.close();
});

function pooled() {
  const lines: string[] = [];
  const gone: string[] = [];
  const log = pino({ base: null }, { write: (line) => lines.push(JSON.parse(line).endpoint) });
  const onGone = (address: string) => gone.push(address);
  const pool = new EndpointPool({ clock: new VirtualClock(), random: () => 0.5, onGone, log });
  pools.push(pool);
  return { pool, lines, gone };
}

const TLS = { credentials: credentials.createSsl(), pems: () => ({}), serverName: undefined };

describe("an address is one endpoint", () => {
  test("an address is one endpoint for all clusters that secure it in the same way, until the last one leaves", () => {
    const { pool, gone } = pooled();
    const first = pool.join("127.0.0.1:1", TLS);
    expect(pool.join("127.0.0.1:1", { ...TLS })).toBe(first);
    pool.leave(first);
    expect(gone).toEqual([]);
    pool.leave(first);
    expect({ gone, left: pool.endpoints }).toEqual({ gone: ["127.0.0.1:1"], left: [] });
  });

  test.each([
    ["not at all", undefined],
    ["with other certificates", { ...TLS, credentials: credentials.createSsl() }],
    ["under another name", { ...TLS, serverName: "b" }],
  ])("an address is another endpoint for a cluster that secures it %s", (_how, tls) => {
    const { pool } = pooled();
    expect(pool.join("127.0.0.1:1", tls)).not.toBe(pool.join("127.0.0.1:1", TLS));
  });
});

test("a drain by hand survives leaving and returning, is reported then, and ends by hand", () => {
  const { pool, lines } = pooled();
  const first = pool.join("127.0.0.1:1");
  pool.setDrained(new Set(["127.0.0.1:1"]));
  expect([first.drained, lines]).toEqual([true, []]);
  pool.leave(first);
  const second = pool.join("127.0.0.1:1");
  expect([second === first, second.drained, lines]).toEqual([false, true, ["127.0.0.1:1"]]);
  pool.setDrained(new Set());
  expect([second.drained, pool.join("127.0.0.1:2").drained]).toEqual([false, false]);
});

describe("plain text to another machine", () => {
  test("plain text to another machine is warned about once", () => {
    const { pool, lines } = pooled();
    for (const address of ["10.0.0.1:1", "10.0.0.2:1"]) pool.join(address);
    expect(lines).toEqual(["10.0.0.1:1"]);
  });

  test.each(["127.0.0.1:1", "localhost:1", "[::1]:1"])(
    "plain text to another machine is not what reaches %s",
    (address) => {
      const { pool, lines } = pooled();
      pool.join(address);
      pool.join("10.0.0.1:1", TLS);
      expect(lines).toEqual([]);
    },
  );
});
