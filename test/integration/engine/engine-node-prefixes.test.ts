import { expect, test } from "vitest";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { Capability } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { errorInfo, type WatchedPrefixes } from "../../support/engine/node-client.ts";
import { nodeOf, scripted } from "../../support/engine/node-rig.ts";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { textAnswer } from "../../support/events/events.ts";
import { eventually } from "../../support/eventually.ts";
import { generateRequest, textMessage } from "../../support/requests/generate-request.ts";
import { digestOf, digestsOf } from "../../support/requests/prefix-digests.ts";

const SYSTEM = textMessage(Role.SYSTEM, "You are terse. ".repeat(100));
const QUESTION = textMessage(Role.USER, "What is to be done about it? ".repeat(60));

const requestOf = (messages: readonly Message[], prefixDigests = digestsOf(messages)): GenerateRequest => ({
  ...generateRequest(),
  messages,
  tools: [],
  prefixDigests,
});

const known = (watched: WatchedPrefixes, messages: readonly Message[], count: number) =>
  watched.held.get(digestOf(messages, count).toString("hex"));

const simulatedNode = (kvTokens = 400_000) => nodeOf(fastSimulator({ kvTokens }));

test("a simulated node reports its prefixes before and after the answer, and reuses what it reported", async () => {
  const { client } = await simulatedNode();
  const [model] = (await client.describe()).models;
  expect(model?.capabilities).toContain(Capability.PREFIX_EVENTS);
  const watched = client.watchPrefixes("svc-qwen");
  const first = [SYSTEM, QUESTION];
  const reading = client.generate(requestOf(first));
  await reading.ended;
  await eventually(() => expect(known(watched, first, 2)?.tailTokens).toBeGreaterThan(0));
  expect(known(watched, first, 1)).toMatchObject({ tailTokens: 0 });
  expect(watched.kv).toMatchObject({ total: 400_000 - (400_000 % 64) });

  const answer = reading.events.flatMap(({ kind }) => (kind?.$case === "blockDelta" ? [kind.value.text] : [])).join("");
  const second = [...first, textMessage(Role.ASSISTANT, answer), textMessage(Role.USER, "And then?")];
  const reported = known(watched, first, 2);
  const next = client.generate(requestOf(second));
  await next.ended;
  const cached = next.events.flatMap(({ kind }) => (kind?.$case === "started" ? [kind.value.cachedInputTokens] : []));
  expect(cached).toEqual([(reported?.tokens ?? 0) + (reported?.tailTokens ?? 0)]);

  // Another conversation has only the head in common.
  const other = [SYSTEM, textMessage(Role.USER, "Something else.")];
  const head = known(watched, other, 1);
  const third = client.generate(requestOf(other));
  await third.ended;
  const found = third.events.flatMap(({ kind }) => (kind?.$case === "started" ? [kind.value.cachedInputTokens] : []));
  expect(found).toEqual([head?.tokens]);
});

test("an evicted prefix is reported as dropped, and a second watcher gets the full state", async () => {
  const { client } = await simulatedNode(1_024);
  const watched = client.watchPrefixes("svc-qwen");
  const messages = [SYSTEM, QUESTION];
  await client.generate(requestOf(messages)).ended;
  await eventually(() => expect(known(watched, messages, 2)).toBeDefined());
  const others = [textMessage(Role.SYSTEM, "Another one. ".repeat(400))];
  await client.generate(requestOf(others)).ended;
  await eventually(() => expect(known(watched, messages, 2)).toBeUndefined());
  const second = client.watchPrefixes("svc-qwen");
  await eventually(() => expect(second.resets).toBe(1));
  expect(second.held).toEqual(watched.held);
});

test("digests that do not match the prompt are refused, and a request without any is not reported", async () => {
  const { client } = await simulatedNode();
  const watched = client.watchPrefixes("svc-qwen");
  const refused = await client.generate(requestOf([SYSTEM, QUESTION], Buffer.alloc(48))).ended;
  expect(refused.info).toMatchObject({ reason: "INVALID_REQUEST", metadata: { field: "prefix_digests" } });
  await client.generate(requestOf([SYSTEM, QUESTION], Buffer.alloc(0))).ended;
  expect(watched.held.size).toBe(0);
});

test("watching is refused by a node without prefix events, and for an unknown model", async () => {
  const { client } = await nodeOf(scripted(() => [textAnswer("x")]));
  expect((await client.watchPrefixes("svc-qwen").ended).code).toBe(12);
  const { client: simulated } = await simulatedNode();
  const ended = await simulated.watchPrefixes("other").ended;
  expect(errorInfo(ended)).toMatchObject({ reason: "MODEL_NOT_SERVED" });
});
