import { afterEach, expect } from "vitest";
import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import type { DialectName } from "../../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import { OpenAiCompatibleBackend } from "../../../engine/backends/openai-compatible/openai-compatible-backend.ts";
import type { OpenAiCompatibleOptions } from "../../../engine/backends/openai-compatible/options.ts";
import { loadProfile } from "../../../engine/profiles/profile.ts";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { NodeClient } from "../engine/node-client.ts";
import { type RunningNode, startNode } from "../engine/start-node.ts";
import { workHere } from "../engine/work-here.ts";
import { answerOf } from "../events/answer-of.ts";
import { generateRequest } from "../requests/generate-request.ts";
import { type DialectServer, type DialectServerOptions, type Reply, startDialectServer } from "./dialect-server.ts";
import type { SpokenAnswer } from "./stand-in-text.ts";

export type DialectRig = {
  readonly engine: DialectServer;
  readonly backend: OpenAiCompatibleBackend;
  readonly node: RunningNode;
  readonly client: NodeClient;
};

export const FOREVER: AbortSignal = new AbortController().signal;

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

/** Registers cleanup for the end of the test, run newest first. */
export function atEnd(...undo: readonly (() => unknown)[]): void {
  stops.push(...undo);
}

export function backendOf(
  engine: Pick<DialectServer, "baseUrl">,
  dialect: DialectName,
  fields: Partial<OpenAiCompatibleOptions> = {},
  clock: Clock = systemClock,
): OpenAiCompatibleBackend {
  const options = {
    nodeId: "n1",
    models: ["svc-qwen"],
    baseUrl: engine.baseUrl,
    dialect,
    profile: loadProfile("qwen3"),
    slots: 4,
    startTimeoutMs: 20_000,
    silenceTimeoutMs: 20_000,
    stepTimeoutMs: 0,
    countTimeoutMs: 20_000,
    loadIntervalMs: 60_000,
    tokenCacheMegabytes: 64,
    images: false,
    priorities: false,
    sharedCache: false,
    work: workHere,
    ...fields,
  };
  return new OpenAiCompatibleBackend(options, clock);
}

/** Starts a node over gRPC for a stand-in engine, after the node has probed it. */
export async function rigOf(
  dialect: DialectName,
  options: DialectServerOptions = {},
  fields: Partial<OpenAiCompatibleOptions> = {},
  { clock, ...nodeOptions }: Parameters<typeof startNode>[1] & { readonly clock?: Clock } = {},
): Promise<DialectRig> {
  const engine = await startDialectServer(dialect, options);
  atEnd(engine.stop);
  const backend = backendOf(engine, dialect, fields, clock);
  await backend.start(FOREVER);
  const node = await startNode(backend, nodeOptions);
  const client = new NodeClient(node.address);
  atEnd(
    () => backend.close(),
    node.stop,
    () => client.close(),
  );
  return { engine, backend, node, client };
}

/** Runs one generation to its end; fails unless its events are legal. */
export async function ask({ client }: DialectRig, fields: Partial<GenerateRequest> = {}) {
  const reading = client.generate(generateRequest(fields));
  const ended = await reading.ended;
  expect(reading.legal()).toBe(true);
  return { ...answerOf(reading.events), whole: reading.finished(), code: ended.code, reason: ended.info?.reason };
}

export function says(answer: SpokenAnswer): Reply {
  return { kind: "answer", answer };
}

/** A piece of an answer's raw text in the data of a stream, which the stand-in writes in its dialect. */
export function textChunk(said: string): object {
  return { said };
}
