import { expect, test } from "vitest";
import { FileKeyVault } from "../../../gateway/keys/file-key-vault.ts";
import { idOfKey } from "../../../gateway/keys/key-format.ts";
import type { KeyRecord } from "../../../gateway/keys/key-record.ts";
import { becomes } from "../../support/becomes.ts";
import { ANSWER_PATHS, bodyFor } from "../../support/http/answer-check.ts";
import { Fleet, HELD, healthy, letEnd, nothingOpen } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { keyCommand } from "../../support/processes/key-command.ts";
import { endKindsOf, openStreams } from "../../support/processes/open-streams.ts";

/* Changes around a running gateway: the order of starts, keys, endpoints. */

const OF_ALL_MODELS = ["--models", "all", "--name", "changing", "--concurrency", "10"];
const RUNNING = ANSWER_PATHS.length;

const fleet = new Fleet();

async function ready(gateway: GatewayProcess): Promise<string> {
  const answer = await fetch(`${gateway.adminUrl}/ready`);
  return `${answer.status} ${(await answer.text()).trim()}`;
}

test("J6 gateway and nodes may start in any order: it is ready while a model has a healthy node", async () => {
  const node = await fleet.engine("node");
  await node.kill();
  const gateway = await fleet.gateway({ endpoints: [{ address: node.address }] });
  expect(await ready(gateway)).toBe("503 PRE_INITIALIZING");
  const early = gateway.post("/v1/messages", bodyFor("/v1/messages", "hi"));
  await becomes(async () => (await gateway.stat("svc_cluster_upstream_rq_held")) === 1, "it is held");
  await node.startAgain();
  await becomes(async () => (await ready(gateway)) === "200 LIVE", "it is ready");
  expect((await early).status).toBe(200);
});

/** Statuses of one new request in each format, which is cancelled at its status. */
async function statuses(gateway: GatewayProcess, key: string): Promise<number[]> {
  const answers = ANSWER_PATHS.map(async (path) => {
    const { status, body } = await gateway.post(path, bodyFor(path, "new", { stream: true }), undefined, key);
    await body?.cancel();
    return status;
  });
  return Promise.all(answers);
}

async function changeKey(gateway: GatewayProcess, key: string, change: Partial<KeyRecord>): Promise<void> {
  const id = idOfKey(key);
  await new FileKeyVault(gateway.keyFile).update(false, [], (set) => {
    const keys = set.keys.map((one) => (one.id === id ? { ...one, ...change, revision: one.revision + 1 } : one));
    return { set: { ...set, revision: set.revision + 1, keys }, value: undefined };
  });
}

type KeyChange = readonly [
  what: string,
  change: (gateway: GatewayProcess, key: string) => Promise<unknown>,
  refused: number,
];

const KEY_CHANGES: readonly KeyChange[] = [
  ["is revoked", ({ keyFile }, key) => keyCommand(keyFile, "revoke", idOfKey(key) ?? ""), 401],
  ["may have no more than one", (gateway, key) => changeKey(gateway, key, { limits: { concurrency: 1 } }), 429],
  ["loses the model", (gateway, key) => changeKey(gateway, key, { models: ["svc-glm53"] }), 404],
];

test("J7 keys that change while their streams run: these end well, new requests obey", async () => {
  const nodes = await fleet.engines(1, HELD);
  const gateway = await fleet.inFrontOf(nodes);
  const keys = await Promise.all(KEY_CHANGES.map(() => gateway.createKey(...OF_ALL_MODELS)));
  const streams = (await Promise.all(keys.map((key) => openStreams(gateway, RUNNING, { key })))).flat();
  const changed = KEY_CHANGES.map((change, at) => ({ change, key: keys[at] ?? "" }));
  for (const { change, key } of changed) await change[1](gateway, key);
  for (const { change, key } of changed) {
    const [what, , refused] = change;
    const obeyed = ANSWER_PATHS.map(() => refused).join();
    await becomes(async () => (await statuses(gateway, key)).join() === obeyed, `new requests obey: the key ${what}`);
  }
  await becomes(async () => (await gateway.stat("svc_streams_active")) === streams.length, "the others are there");
  letEnd(nodes);
  expect(await endKindsOf(streams)).toEqual(streams.map(() => "complete"));
  await nothingOpen(gateway, nodes);
});

test("I6 and J7 streams of removed endpoints complete, and new requests use others or fail", async () => {
  const [first, second] = await fleet.engines(2, HELD);
  if (!first || !second) throw new Error("two nodes were started");
  const file = fleet.endpointFile();
  file.list([first]);
  const circuitBreakers = { noEndpointHoldMs: 0 };
  const gateway = await fleet.gateway({ type: "file", path: file.path, circuitBreakers });
  await healthy(gateway, first.address);
  const onFirst = await openStreams(gateway, RUNNING);
  file.list([second]);
  await healthy(gateway, second.address);
  const onSecond = await openStreams(gateway, RUNNING);
  expect(await second.metric("svc_engine_slots_busy")).toBe(RUNNING);
  file.list([]);
  const overloaded = ANSWER_PATHS.map((path) => (path === "/v1/messages" ? 529 : 503)).join();
  await becomes(async () => (await statuses(gateway, gateway.key)).join() === overloaded, "no model is left");
  expect(await ready(gateway)).toContain("503");
  letEnd([first, second]);
  expect(await endKindsOf([...onFirst, ...onSecond])).toEqual(Array(2 * RUNNING).fill("complete"));
  await nothingOpen(gateway, [first, second]);
});
