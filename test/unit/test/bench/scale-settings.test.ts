import { isIPv4 } from "node:net";
import { expect, test } from "vitest";
import { endpointHost, parseScale, WHOLE_SCALE } from "../../../bench/settings.ts";

test("unnamed sizes are those of the whole scale, and other names are refused", () => {
  expect(parseScale("endpoints=10,streams=20")).toEqual({ ...WHOLE_SCALE, endpoints: 10, streams: 20 });
  for (const text of ["", "endpoints", "endpoints=0", "endpoints=1.5", "nodes=3", "endpoints=62501"])
    expect([text, parseScale(text)]).toEqual([text, undefined]);
});

test("every endpoint has its own address of this machine", () => {
  const hosts = Array.from({ length: 62_500 }, (_, number) => endpointHost(number));
  expect(new Set(hosts).size).toBe(hosts.length);
  expect(hosts.filter((host) => !isIPv4(host) || !host.startsWith("127."))).toEqual([]);
});
