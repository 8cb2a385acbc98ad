import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { checkConfig } from "../../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../../gateway/config.ts";
import { openShared } from "../../../gateway/shared-parts.ts";
import { Stats } from "../../../gateway/stats/stats.ts";
import { becomes } from "../../support/becomes.ts";
import { createKey } from "../../support/processes/key-command.ts";

/* The gateway's reports about stores and issuers that it cannot trust, or has not reached. */

let folder: string;
let keyFile: string;
let said: Record<string, unknown>[];
let close: () => Promise<void>;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "svc-shared-parts-"));
  keyFile = join(folder, "keys.json");
  await createKey(keyFile, "--name", "one", "--models", "all");
  said = [];
  close = async () => {};
});

afterEach(async () => {
  await close();
  rmSync(folder, { recursive: true });
});

async function open(settings: object) {
  const config = checkConfig(gatewayConfigSchema, { keys: { file: keyFile }, clusters: [], ...settings }, "g.yaml");
  const log = pino({ level: "warn" }, { write: (line) => said.push(JSON.parse(line)) });
  const shared = await openShared(config, new Stats(), log);
  close = () => shared.close();
  return shared;
}

const warnings = () => said.filter(({ msg }) => String(msg).includes("is sent in plain text"));

const store = (redis: object) => ({ state: { redis } });
const password = "a-password";

test.each<readonly [string, (passwordFile: string) => object]>([
  ["a store", () => ({ url: `redis://:${password}@store.invalid:6379` })],
  ["a store by a file", (passwordFile) => ({ url: "redis://store.invalid:6379", passwordFile })],
])("the password of %s on another machine without TLS is warned of, in one line", async (_what, redis) => {
  const file = join(folder, "password");
  writeFileSync(file, password, { mode: 0o600 });
  await open(store(redis(file)));
  expect(warnings()).toEqual([
    expect.objectContaining({ level: 40, address: expect.stringMatching(/^store\.invalid:/) }),
  ]);
  expect(JSON.stringify(said)).not.toContain(password);
});

test.each([
  ["on this machine", { url: `redis://:${password}@127.0.0.1:1` }],
  ["without a password", { url: "redis://store.invalid:6379" }],
  ["with TLS", { url: `rediss://:${password}@store.invalid:6379` }],
])("a store %s is not warned of", async (_what, redis) => {
  await open(store(redis));
  expect(warnings()).toEqual([]);
});

test("an issuer whose keys were never read is distinguished from one whose newest keys are unusable", async () => {
  const jwksFile = join(folder, "jwks.json");
  const issuer = { issuer: "https://login.example", audience: ["svc"], jwksFile };
  const shared = await open({ auth: { jwt: issuer } });
  expect(shared.notes()).toEqual(["tokens: the keys of the issuer were never read; no token is accepted"]);
  expect(said.map(({ msg }) => msg)).toEqual([
    "the keys of the tokens' issuer cannot be used, and never were: no token is accepted until they are",
  ]);
  writeFileSync(jwksFile, JSON.stringify({ keys: [] }));
  await becomes(async () => shared.notes().length === 0, "the keys are read");
  writeFileSync(jwksFile, "nonsense");
  await becomes(async () => said.length === 2, "it is said");
  expect(said[1]?.msg).toBe("the keys of the tokens' issuer cannot be used; the last good ones stay");
  expect(shared.notes()).toEqual([]);
});
