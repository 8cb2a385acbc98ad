import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { Endpoint } from "../../../gateway/upstream/endpoint/endpoint.ts";
import { PrefixWatch } from "../../../gateway/upstream/endpoint/prefix-watch.ts";
import { Announcements } from "../../../gateway/upstream/load-balancing/prefix-index.ts";
import { encodeRequest } from "../../../gateway/upstream/request/encoded-request.ts";
import { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { NodeClient } from "../../support/engine/node-client.ts";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { startEngine } from "../../support/engine/start-engine.ts";
import { startNode } from "../../support/engine/start-node.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { until } from "../../support/until.ts";

const MODEL = "svc-qwen";
const KEY = Buffer.alloc(32, 7);

const says = (role: Role, text: string): Message => ({ role, parts: [{ kind: { $case: "text", value: { text } } }] });
const conversation = (turns: number): Message[] => [
  says(Role.SYSTEM, "You are terse. ".repeat(100)),
  ...Array.from({ length: turns }, (_, turn) =>
    says(turn % 2 === 0 ? Role.USER : Role.ASSISTANT, `message ${turn} `.repeat(40)),
  ),
];

/** The request as it arrives at a node, and the digests of its prompt at the gateway. */
function encoded(messages: readonly Message[]) {
  const { bytes, facts } = encodeRequest({ ...generateRequest(), messages, tools: [] }, KEY);
  return { request: GenerateRequest.decode(bytes), hashes: facts.shape.boundaries.map(({ hash }) => hash) };
}

async function following() {
  const node = await startNode(fastSimulator());
  const endpoint = new Endpoint(node.address);
  const announcements = new Announcements();
  const watch = new PrefixWatch({ endpoint, model: MODEL, announcements, clock: systemClock, random: () => 0.5 });
  const client = new NodeClient(node.address);
  onTestFinished(() => node.stop());
  onTestFinished(() => endpoint.close());
  onTestFinished(() => watch.stop());
  onTestFinished(() => client.close());
  await endpoint.describe(Date.now() + 10_000);
  return { node, endpoint, announcements, watch, client };
}

test("a node reports its prefixes by the request's digests, and their sum matches the next cache hit", async () => {
  const { announcements, watch, client, node } = await following();
  watch.follow();
  await until(() => announcements.fillOf(node.address) !== undefined, "the first word");
  const { request, hashes } = encoded(conversation(1));
  await client.generate(request).ended;
  const last = hashes.at(-1) ?? "";
  await until(() => announcements.holders(last).some(({ tailTokens }) => tailTokens > 0), "the answer");
  const [holder] = announcements.holders(last);
  expect(holder?.address).toBe(node.address);
  expect(announcements.fillOf(node.address)?.usedTokens).toBe((holder?.tokens ?? 0) + (holder?.tailTokens ?? 0));

  const again = client.generate(request);
  await again.ended;
  const cached = again.events.flatMap(({ kind }) => (kind?.$case === "started" ? [kind.value.cachedInputTokens] : []));
  expect(cached[0]).toBeGreaterThanOrEqual(holder?.tokens ?? Number.NaN);
});

test("of a long conversation the first two and the last 62 boundaries are reported", async () => {
  const { announcements, watch, client, node } = await following();
  watch.follow();
  await until(() => announcements.fillOf(node.address) !== undefined, "the first word");
  const { request, hashes } = encoded(conversation(101));
  expect(request.prefixDigests).toHaveLength(64 * 16);
  await client.generate(request).ended;
  await until(() => announcements.size === 64, "all places");
  const known = hashes.flatMap((hash, index) => (announcements.holders(hash).length > 0 ? [index] : []));
  expect(known).toEqual([0, 1, ...Array.from({ length: 62 }, (_, index) => 40 + index)]);
});

test("reports end with the stream, and a node that returns empty is believed to be empty", async () => {
  const { announcements, watch, client, node } = await following();
  watch.follow();
  const { request, hashes } = encoded(conversation(1));
  await client.generate(request).ended;
  await until(() => announcements.holders(hashes.at(-1) ?? "").length > 0, "the prompt");
  client.close();
  await node.stop();
  await until(() => announcements.fillOf(node.address) === undefined, "the loss");
  expect(announcements.size).toBe(0);

  const back = await startNode(fastSimulator(), { port: Number(node.address.split(":")[1]) });
  onTestFinished(back.stop);
  await until(() => announcements.fillOf(node.address) !== undefined, "the new node's word");
  expect(announcements.size).toBe(0);
  const caller = new NodeClient(back.address);
  onTestFinished(() => caller.close());
  await caller.generate(request).ended;
  await until(() => announcements.holders(hashes.at(-1) ?? "").length > 0, "the prompt on the new node");
  watch.stop();
  expect(announcements.fillOf(node.address)).toBeUndefined();
});

test("a stream that is lost alone is reopened, and reports all again", async () => {
  const { announcements, watch, client } = await following();
  watch.follow();
  const { request, hashes } = encoded(conversation(3));
  await client.generate(request).ended;
  await until(() => announcements.holders(hashes.at(-1) ?? "").some(({ tailTokens }) => tailTokens > 0), "the prompt");
  const before = hashes.map((hash) => announcements.holders(hash));
  watch.stop();
  expect(announcements.size).toBe(0);
  watch.follow();
  await until(() => announcements.size === hashes.length, "all of it again");
  expect(hashes.map((hash) => announcements.holders(hash))).toEqual(before);
});

test("a node that announces reports but fails is retried a minute later", async () => {
  const engine = await startEngine(async function* () {});
  const endpoint = new Endpoint(engine.address);
  const waits: number[] = [];
  const clock = {
    ...systemClock,
    after: (ms: number) => {
      waits.push(ms);
      return () => {};
    },
  };
  const watch = new PrefixWatch({
    endpoint,
    model: MODEL,
    announcements: new Announcements(),
    clock,
    random: () => 0.5,
  });
  onTestFinished(() => engine.stop());
  onTestFinished(() => endpoint.close());
  onTestFinished(() => watch.stop());
  await endpoint.describe(Date.now() + 10_000);
  watch.follow();
  await until(() => waits.length > 0, "its end");
  expect(waits).toEqual([60_000]);
});
