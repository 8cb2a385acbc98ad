import { expect } from "vitest";
import type { OpenAiCompatibleBackend } from "../../engine/backends/openai-compatible/openai-compatible-backend.ts";
import type { ModelFiles } from "../../engine/backends/openai-compatible/prompt/model-files.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import { CountTokensRequest, type GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { backendOf } from "../support/dialects/dialect-rig.ts";
import { MARKS } from "../support/dialects/injections.ts";
import { NodeClient, type Reading } from "../support/engine/node-client.ts";
import { type RunningNode, startNode } from "../support/engine/start-node.ts";
import { answerOf } from "../support/events/answer-of.ts";
import { RealEngine } from "../support/processes/real-engine.ts";
import { generateRequest } from "../support/requests/generate-request.ts";
import type { LaneEngine } from "./engines.ts";

/** The time that an engine may take for one thing on a busy machine, in milliseconds. */
const PATIENCE_MS = 120_000;

export const MODEL = "svc-qwen";

/** The name of the weights, which other nodes have as well. */
export const WEIGHTS = "demo";

/** A real engine, and a node over gRPC that stands beside it. */
export class Rig {
  readonly lane: LaneEngine;
  readonly #parts: Partial<{ engine: RealEngine; backend: OpenAiCompatibleBackend; node: RunningNode }> = {};
  #client: NodeClient | undefined;

  constructor(lane: LaneEngine) {
    this.lane = lane;
  }

  get engine(): RealEngine {
    if (!this.#parts.engine) throw new Error("the engine has not been started");
    return this.#parts.engine;
  }

  get client(): NodeClient {
    if (!this.#client) throw new Error("the node has not been started");
    return this.#client;
  }

  async startEngine(): Promise<void> {
    this.#parts.engine = await RealEngine.start(this.lane.command);
  }

  /** Makes a backend beside the engine, and starts it: it probes the engine. With `files` it renders prompts itself. */
  async backend(slots: number, model = MODEL, files?: ModelFiles): Promise<OpenAiCompatibleBackend> {
    const { dialect } = this.lane;
    const times = { startTimeoutMs: PATIENCE_MS, silenceTimeoutMs: PATIENCE_MS, countTimeoutMs: PATIENCE_MS };
    const backend = backendOf(this.engine, dialect, {
      ...{ ...times, stepTimeoutMs: PATIENCE_MS, loadIntervalMs: 200, slots, sharedCache: true },
      ...{ models: [model], profile: loadProfile("hermes-thinking"), weights: WEIGHTS },
      // The others do not report them.
      spellings: dialect === "vllm" ? undefined : MARKS,
      files,
    });
    await backend.start(new AbortController().signal);
    return backend;
  }

  async startNode(): Promise<void> {
    const backend = await this.backend(32);
    const node = await startNode(backend);
    Object.assign(this.#parts, { backend, node });
    this.#client = new NodeClient(node.address);
  }

  async stopNode(): Promise<void> {
    this.#client?.close();
    await this.#parts.node?.stop();
    await this.#parts.backend?.close();
  }

  async stopEngine(): Promise<void> {
    await this.#parts.engine?.stop();
  }

  /** Asks for a generation, at temperature 0 unless the fields say otherwise. */
  begin(fields: Partial<GenerateRequest>): Reading {
    const asked = { sampling: { temperature: 0, stop: [], logitBias: {} }, maxOutputTokens: 200, ...fields };
    return this.client.generate(generateRequest({ model: MODEL, ...asked }));
  }

  /** Asks for a generation and reads it whole; fails unless it ends well and its events are legal. */
  async ask(fields: Partial<GenerateRequest>) {
    const reading = this.begin(fields);
    expect(await reading.ended).toMatchObject({ code: 0 });
    expect(reading.legal()).toBe(true);
    expect(reading.finished()).toBe(true);
    return answerOf(reading.events);
  }

  async count(fields: Partial<CountTokensRequest>): Promise<number> {
    return (await this.client.countTokens({ ...CountTokensRequest.create(), model: MODEL, ...fields })).inputTokens;
  }

  /** Resolves to the number of generations that run in the engine, by its own word. */
  async running(): Promise<number> {
    const page = await (await fetch(`${this.engine.baseUrl}/metrics`)).text();
    const values = [...page.matchAll(new RegExp(`^${this.lane.runningMetric}(?:\\{.*\\})? (\\S+)`, "gm"))];
    expect(values).not.toEqual([]);
    return values.reduce((sum, [, value]) => sum + Number(value), 0);
  }
}
