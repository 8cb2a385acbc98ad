import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ConfigError, parseConfig } from "../../../../../deploy/runtime/config/load-config.ts";
import { systemClock } from "../../../../../deploy/runtime/time/clock.ts";
import { endpointFileSchema, FileDiscovery } from "../../../../../gateway/upstream/discovery/file-discovery.ts";
import { until } from "../../../../support/until.ts";

const parse = (text: string) => parseConfig(endpointFileSchema, text, "endpoints.yaml").endpoints;

test.each([
  ["YAML", "endpoints:\n  - address: a:1\n  - address: '[::1]:2'\n    loadBalancingWeight: 2\n"],
  ["JSON", '{"endpoints":[{"address":"a:1"},{"address":"[::1]:2","loadBalancingWeight":2}]}'],
])("endpoints are read from %s", (_, text) => {
  expect(parse(text)).toEqual([
    { address: "a:1", loadBalancingWeight: 1 },
    { address: "[::1]:2", loadBalancingWeight: 2 },
  ]);
});

test.each([
  ["an empty file", "", "(root)"],
  ["no YAML", "endpoints: [", "endpoints.yaml: "],
  ["an unknown key", "endpoints: []\nendpoint: []", "endpoint"],
  ["an unknown key of an endpoint", "endpoints: [{address: 'a:1', weight: 2}]", "endpoints.0"],
  ["no port", "endpoints: [{address: a}]", "endpoints.0.address"],
  ["an invalid port", "endpoints: [{address: 'a:70000'}]", "endpoints.0.address: expected a port"],
  ["an address twice", "endpoints: [{address: 'a:1'}, {address: 'a:1'}]", "endpoints: an address"],
  ["a weight of 0", "endpoints: [{address: 'a:1', loadBalancingWeight: 0}]", "endpoints.0.loadBalancingWeight"],
])("a file with %s is refused, and the message names the position", (_, text, where) => {
  expect(() => parse(text)).toThrow(ConfigError);
  expect(() => parse(text)).toThrow(where);
});

let folder = "";
let file = "";
let discovery: FileDiscovery | undefined;
let found: (readonly string[])[] = [];
let faults: (string | undefined)[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-endpoints-"));
  file = join(folder, "endpoints.yaml");
  found = [];
  faults = [];
});

afterEach(async () => {
  discovery?.close();
  await rm(folder, { recursive: true, force: true });
});

function follow(path = file): void {
  discovery = new FileDiscovery(path, {
    clock: systemClock,
    random: Math.random,
    resolve: () => Promise.reject(new Error("no names here")),
    onEndpoints: (endpoints) => found.push(endpoints.map(({ address }) => address)),
    onFault: (fault) => faults.push(fault),
  });
}

/** Replaces the file atomically, as operators should. */
async function replaceWith(text: string): Promise<void> {
  await writeFile(join(folder, "next"), text);
  await rename(join(folder, "next"), file);
}

const listing = (...addresses: string[]) => JSON.stringify({ endpoints: addresses.map((address) => ({ address })) });

test("a file is read again when it is replaced; while it is bad or missing the last list stays", async () => {
  await replaceWith(listing("a:1"));
  follow();
  await until(() => found.length === 1, "the first list");
  await replaceWith(JSON.stringify({ endpoints: [{ address: "b:1", port: 2 }] }));
  await until(() => discovery?.status.rejected === 1, "the refusal");
  await replaceWith(listing("a:1", "b:1"));
  await until(() => found.length === 2, "the second list");
  await rm(file);
  await until(() => discovery?.status.failures === 1, "the failure");
  await replaceWith(listing("a:1", "b:1"));
  await until(() => discovery?.status.fault === undefined, "the end of the fault");
  expect(found).toEqual([["a:1"], ["a:1", "b:1"]]);
  expect(faults).toEqual([
    expect.stringMatching(/: endpoints\.0\.port: unknown key; known here: address/),
    undefined,
    `${file}: ENOENT`,
    undefined,
  ]);
  expect(discovery?.status).toMatchObject({ successes: 3, rejected: 1, failures: 1 });
});

test("a file in a folder that is created later is found", async () => {
  const later = join(folder, "mounted");
  follow(join(later, "endpoints.yaml"));
  await until(() => discovery?.status.failures === 1, "the failure");
  await replaceWith(listing("a:1"));
  await rename(file, join(folder, "x"));
  await mkdir(later);
  await rename(join(folder, "x"), join(later, "endpoints.yaml"));
  await until(() => found.length === 1, "the list");
  expect(found).toEqual([["a:1"]]);
});
