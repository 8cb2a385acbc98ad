import { expect, test } from "vitest";
import { systemResolve } from "../../../../../gateway/upstream/discovery/resolve.ts";

test("addresses resolve to themselves, in any number at a time", async () => {
  const resolve = systemResolve();
  const hosts = Array.from({ length: 20 }, (_, index) => `127.0.0.${index + 1}`);
  expect(await Promise.all(hosts.map((host) => resolve(host)))).toEqual(hosts.map((host) => [host]));
  expect(await resolve("::1")).toEqual(["::1"]);
});

test("concurrent lookups of a host share a result, later ones do not", async () => {
  const resolve = systemResolve();
  const first = resolve("127.0.0.1");
  expect(resolve("127.0.0.1")).toBe(first);
  await first;
  expect(resolve("127.0.0.1")).not.toBe(first);
});

test("a failed lookup fails for all its callers and delays no other", async () => {
  const resolve = systemResolve();
  const wrong = ["a..invalid", "b..invalid", "c..invalid"].map((host) => resolve(host));
  for (const result of await Promise.allSettled(wrong)) expect(result.status).toBe("rejected");
  expect(await resolve("127.0.0.1")).toEqual(["127.0.0.1"]);
});
