import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "../../../../../deploy/runtime/time/clock.ts";
import { FileDiscovery } from "../../../../../gateway/upstream/discovery/file-discovery.ts";
import { until } from "../../../../support/until.ts";

let folder = "";
let file = "";
let discovery: FileDiscovery | undefined;
let told: (readonly string[])[] = [];
let faults: (string | undefined)[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-endpoints-"));
  file = join(folder, "endpoints.yaml");
  told = [];
  faults = [];
});

afterEach(async () => {
  discovery?.close();
  await rm(folder, { recursive: true, force: true });
});

function follow(path = file): FileDiscovery {
  discovery = new FileDiscovery(path, {
    clock: systemClock,
    random: Math.random,
    resolve: () => Promise.reject(new Error("no names here")),
    onEndpoints: (endpoints) => told.push(endpoints.map(({ address }) => address)),
    onFault: (fault) => faults.push(fault),
  });
  return discovery;
}

/** By a rename, as operators should. */
async function replaceWith(text: string): Promise<void> {
  await writeFile(join(folder, "next"), text);
  await rename(join(folder, "next"), file);
}

const listing = (...addresses: string[]) => JSON.stringify({ endpoints: addresses.map((address) => ({ address })) });

test("a file is read, and read again when it is replaced", async () => {
  await replaceWith(listing("a:1"));
  follow();
  await until(() => told.length === 1, "the first list");
  await replaceWith(listing("a:1", "b:1"));
  await until(() => told.length === 2, "the second list");
  expect(told).toEqual([["a:1"], ["a:1", "b:1"]]);
  expect(faults).toEqual([]);
});

test("a bad file changes nothing and is counted, and the next good one counts", async () => {
  await replaceWith(listing("a:1"));
  const { status: before } = follow();
  expect(before.attempts).toBe(0);
  await until(() => told.length === 1, "the first list");
  await replaceWith(JSON.stringify({ endpoints: [{ address: "b:1", port: 2 }] }));
  await until(() => discovery?.status.rejected === 1, "the refusal");
  expect(told).toEqual([["a:1"]]);
  expect(faults).toEqual([`${file}: endpoints.0: Unrecognized key: "port"`]);
  await replaceWith(listing("c:1"));
  await until(() => told.length === 2, "the next list");
  expect(told[1]).toEqual(["c:1"]);
  expect(discovery?.status).toMatchObject({ successes: 2, rejected: 1, failures: 0, fault: undefined });
});

test("a removed file changes nothing", async () => {
  await replaceWith(listing("a:1"));
  follow();
  await until(() => told.length === 1, "the first list");
  await rm(file);
  await until(() => discovery?.status.failures === 1, "the failure");
  expect(told).toEqual([["a:1"]]);
  await replaceWith(listing("a:1"));
  await until(() => discovery?.status.fault === undefined, "the end of the fault");
  expect(told).toEqual([["a:1"]]);
});

test("a file in a folder created later is found", async () => {
  const later = join(folder, "mounted");
  follow(join(later, "endpoints.yaml"));
  await until(() => discovery?.status.failures === 1, "the failure");
  await replaceWith(listing("a:1"));
  await rename(file, join(folder, "x"));
  await mkdir(later);
  await rename(join(folder, "x"), join(later, "endpoints.yaml"));
  await until(() => told.length === 1, "the list");
  expect(told).toEqual([["a:1"]]);
});
