import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { toDuration } from "../../deploy/runtime/time/clock.ts";
import type { OpenAiCompatibleBackend } from "../../engine/backends/openai-compatible/openai-compatible-backend.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Capability } from "../../proto/gen/svc/inference/v1/node_service.ts";
import { backendOf } from "../support/dialects/dialect-rig.ts";
import { user } from "../support/engine/canonical.ts";
import { FaultyWire } from "../support/engine/faulty-wire.ts";
import { NodeClient } from "../support/engine/node-client.ts";
import { type RunningNode, startNode } from "../support/engine/start-node.ts";
import { answerOf } from "../support/events/answer-of.ts";
import { freePort } from "../support/free-port.ts";
import { FrontRig } from "../support/gateway/front-rig.ts";
import { settle, settleUntil } from "../support/gateway/upstream/settle.ts";
import { metricSum } from "../support/metric-text.ts";
import { RealEngine } from "../support/processes/real-engine.ts";
import { generateRequest } from "../support/requests/generate-request.ts";
import { until } from "../support/until.ts";
import { CUT } from "./answers.ts";
import { ENGINES, handingCommand } from "./engines.ts";
import { MODEL, WEIGHTS } from "./rig.ts";

/* A prompt is read on one real vLLM, and answered by another (`test/engines/run vllm`). */

const ROUNDS = 20;
const PATIENCE_MS = 300_000;
const LEASE_SECONDS = 6;
/** Less than two prompts of `FILLER`, so that memory is soon used again. */
const BLOCKS = 160;
/** A call behind reasoning is a second request, which reads the prompt's last block where it is no whole one. */
const BLOCK_TOKENS = 32;
const LEFT = toDuration(20_000);
const KINDS = Object.values(CUT);

let number = 0;

/** A request whose prompt has a beginning of its own, of one of the kinds of answers. */
function asked(kind: number, fields: Partial<GenerateRequest> = {}): GenerateRequest {
  number += 1;
  const own = KINDS[kind % KINDS.length] ?? {};
  const [question] = own.messages ?? [];
  const said = question?.parts[0]?.kind;
  const text = said?.$case === "text" ? said.value.text : "";
  return generateRequest({
    ...{ model: MODEL, sampling: { temperature: 0, stop: [], logitBias: {} }, maxOutputTokens: 40 },
    // Prompts with the same tools would find each other's.
    tenant: `t${number}`,
    ...own,
    messages: [user(`Note ${number}: the ships sail at ${number} o'clock. `.repeat(24) + text)],
    ...fields,
  });
}

type Side = { readonly engine: RealEngine; backend: OpenAiCompatibleBackend; node: RunningNode; client: NodeClient };

async function beside(engine: Pick<RealEngine, "baseUrl">): Promise<OpenAiCompatibleBackend> {
  const times = { startTimeoutMs: PATIENCE_MS, silenceTimeoutMs: PATIENCE_MS, countTimeoutMs: PATIENCE_MS };
  const backend = backendOf(engine, "vllm", {
    ...{ ...times, stepTimeoutMs: PATIENCE_MS, loadIntervalMs: 500, slots: 16, weights: WEIGHTS, models: [MODEL] },
    profile: loadProfile("hermes-thinking"),
  });
  await backend.start(new AbortController().signal);
  return backend;
}

async function startSide(
  name: string,
  options: { readonly blocks?: number; readonly dtype?: string } = {},
): Promise<Side> {
  const command = handingCommand(name, { sidePort: await freePort(2), leaseSeconds: LEASE_SECONDS, ...options });
  const engine = await RealEngine.start(command);
  const backend = await beside(engine);
  const node = await startNode(backend);
  return { engine, backend, node, client: new NodeClient(node.address) };
}

async function stopSide({ engine, backend, node, client }: Side): Promise<void> {
  client.close();
  await node.stop();
  await backend.close();
  await engine.stop();
}

/** Reads one generation whole, by the engine's own tokens. */
async function run(client: NodeClient, request: GenerateRequest) {
  const reading = client.generate({ ...request, resumable: true });
  const { code, info } = await reading.ended;
  const { started, blocks, finished } = answerOf(reading.events);
  const said = blocks.map(({ kind, name, text, complete }) => ({ kind, name, text, complete }));
  return { code, reason: info?.reason, started, said, tokens: reading.tokens, finished };
}

async function metric({ engine }: Pick<Side, "engine">, name: string, labels = ""): Promise<number> {
  return metricSum(await (await fetch(`${engine.baseUrl}/metrics`)).text(), name, labels);
}

const computed = (side: Side) => metric(side, "vllm:prompt_tokens_by_source_total", 'source="local_compute"');
const transferred = (side: Side) => metric(side, "vllm:prompt_tokens_by_source_total", 'source="external_kv_transfer"');

/** Waits until the engines hold nothing, twice the lease at most. */
async function untilFree(...sides: readonly Side[]): Promise<void> {
  const use = async (side: Side) =>
    (await metric(side, "vllm:kv_cache_usage_perc")) + (await metric(side, "vllm:num_requests_running"));
  const all = async () => (await Promise.all(sides.map(use))).reduce((sum, one) => sum + one, 0);
  await expect.poll(all, { timeout: 3_000 * LEASE_SECONDS, interval: 250 }).toBe(0);
}

const lane = ENGINES[0];

describe.runIf(lane?.installed)("two real engines", { timeout: 1_800_000 }, () => {
  let reads: Side;
  let answers: Side;
  beforeAll(async () => {
    [reads, answers] = await Promise.all([startSide("reads", { blocks: BLOCKS }), startSide("answers")]);
  }, 1_200_000);
  afterAll(async () => {
    await Promise.all([reads, answers].map((side) => side && stopSide(side)));
  });

  const make = async (request: GenerateRequest, side = reads) => {
    const { started, code } = await run(side.client, { ...request, maxOutputTokens: 0, makeHandOver: true });
    expect(code).toBe(0);
    return started?.handOver ?? Buffer.alloc(0);
  };
  const take = (request: GenerateRequest, handOver: Buffer, client = answers.client) =>
    run(client, { ...request, handOver, handOverLeft: LEFT });
  /** The undisturbed answer, which leaves nothing in the tenant's cache. */
  const alone = (request: GenerateRequest) => run(answers.client, { ...request, tenant: "alone" });

  test("two real engines say that they take prompts from each other", async () => {
    const [one, other] = await Promise.all(
      [reads, answers].map(async ({ client }) => (await client.describe()).models[0]),
    );
    expect(one?.capabilities).toContain(Capability.HAND_OVER);
    expect(other?.handOverGroup).toBe(one?.handOverGroup);
  });

  test("two real engines answer as one does, token for token, and the second reads nothing", async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const request = asked(round);
      const undisturbed = await alone(request);
      const before = [await computed(answers), await transferred(answers)] as const;
      const answer = await take(request, await make(request));
      expect(answer.said).toEqual(undisturbed.said);
      expect(answer.tokens).toEqual(undisturbed.tokens);
      expect(answer.finished?.reason).toBe(undisturbed.finished?.reason);
      expect(await computed(answers)).toBe(before[0]);
      expect(await transferred(answers)).toBe(before[1] + (answer.started?.inputTokens ?? Number.NaN));
    }
    await untilFree(reads, answers);
  });

  test("two real engines move the new part of a conversation only", async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const first = asked(0);
      const { started } = await run(answers.client, first);
      const next = { ...first, messages: [...first.messages, user(`And then, at ${round}? `.repeat(20))] };
      const undisturbed = await alone(next);
      const before = [await computed(answers), await transferred(answers)] as const;
      const answer = await take(next, await make(next));
      expect(answer.tokens).toEqual(undisturbed.tokens);
      expect(await computed(answers)).toBe(before[0]);
      const moved = (await transferred(answers)) - before[1];
      expect(moved).toBeGreaterThan(0);
      expect(moved).toBeLessThan((answer.started?.inputTokens ?? 0) - (started?.inputTokens ?? 0) + 64);
    }
    await untilFree(reads, answers);
  });

  test("two real engines never use a hand-over that is broken, for another prompt, used, or late", async () => {
    const fields = ["remote_block_ids", "remote_engine_id", "remote_request_id", "remote_host", "remote_port"];
    for (let round = 0; round < ROUNDS; round += 1) {
      const [request, other] = [asked(round), asked(round)];
      const undisturbed = await alone(request);
      const bytes = await make(request);
      const before = await transferred(answers);
      const broken = JSON.parse(bytes.toString());
      Reflect.deleteProperty(broken.engine, fields[round % fields.length] ?? "");
      const wrong: readonly (() => ReturnType<typeof run>)[] = [
        () => take(request, Buffer.from(JSON.stringify(broken))),
        async () => take({ ...request, tenant: "u" }, bytes),
        async () => run(answers.client, { ...request, tenant: "v", handOver: bytes, handOverLeft: toDuration(0) }),
        async () => take({ ...request, tenant: "w" }, await make(other)),
      ];
      for (const one of wrong) expect((await one()).tokens).toEqual(undisturbed.tokens);
      expect(await transferred(answers)).toBe(before);
      const again = asked(round);
      const used = await make(again);
      const [first, second] = [await take(again, used), await take(again, used)];
      expect(second.tokens).toEqual(first.tokens);
    }
    await untilFree(reads, answers);
  });

  test("two real engines show no word of a foreign prompt, whose digest was forged, and none in the next answer", async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      // Each has a node that has seen no foreign one yet.
      const backend = await beside(answers.engine);
      const node = await startNode(backend);
      const client = new NodeClient(node.address);
      // Prompts whose answers begin alike cannot be distinguished.
      const [request, other] = [asked(0), asked(1)];
      const undisturbed = await alone(request);
      const forged = JSON.parse((await make(other)).toString());
      const { prompt } = JSON.parse((await make(request)).toString());
      // The candidates are those of the prompt that it claims to be.
      const { first } = JSON.parse((await make(request)).toString());
      const lost = await take(request, Buffer.from(JSON.stringify({ ...forged, prompt, first })), client);
      expect(lost).toMatchObject({ reason: "HAND_OVER_LOST", said: [] });
      expect((await run(client, request)).tokens).toEqual(undisturbed.tokens);
      client.close();
      await node.stop();
      await backend.close();
    }
    await untilFree(reads, answers);
  });

  test("two real engines show no word of what lies in memory behind the lease, if the time that is left was forged", async () => {
    const requests = Array.from({ length: ROUNDS }, () => asked(0, { tenant: "late" }));
    for (const request of requests) {
      const undisturbed = await alone(request);
      const bytes = await make(request);
      await wait(1_500 * LEASE_SECONDS);
      for (let filler = 0; filler < 3; filler += 1)
        await run(reads.client, {
          ...asked(0),
          messages: [user(`Filler ${number} ${filler} of it. `.repeat(300))],
          maxOutputTokens: 1,
        });
      const backend = await beside(answers.engine);
      const node = await startNode(backend);
      const client = new NodeClient(node.address);
      const late = await take(request, bytes, client);
      if (late.code !== 0) expect(late).toMatchObject({ reason: "HAND_OVER_LOST", said: [] });
      else expect(late.tokens).toEqual(undisturbed.tokens);
      expect((await run(client, request)).tokens).toEqual(undisturbed.tokens);
      client.close();
      await node.stop();
      await backend.close();
    }
    await untilFree(reads, answers);
  });

  describe("behind a gateway", () => {
    /** A router in front of both: the first answers, behind a wire; the other answers as well with `both`. */
    const rigged = async (both = false) => {
      const wire = await FaultyWire.start(answers.node.address);
      const endpoints = [wire.address, ...(both ? [reads.node.address] : [])];
      const prefill = { type: "static", endpoints: [{ address: reads.node.address }] };
      const rig = new FrontRig(endpoints, {
        ...{ cluster: { prefill }, router: { leastMovedTokens: 100 }, continuation: { maxBytes: 1_000_000 } },
      });
      const close = () => {
        rig.close();
        wire.close();
      };
      onTestFinished(close);
      await rig.ready();
      await until(() => rig.manager.clusters.every((one) => one.healthyEndpoints.length > 0), "all are healthy");
      return { rig, wire, close };
    };
    const saidBy = (sent: ReturnType<FrontRig["send"]>) =>
      answerOf(sent.events).blocks.map(({ kind, name, text, complete }) => ({ kind, name, text, complete }));

    test("a prompt is read on the one and answered by the other", async () => {
      const { rig } = await rigged();
      for (let round = 0; round < ROUNDS; round += 1) {
        const request = asked(round);
        const undisturbed = await alone(request);
        const before = await computed(answers);
        const sent = rig.send(request);
        expect(await sent.outcome).toBe("ok");
        expect(sent.calls.prefilledAt).toBe(reads.node.address);
        expect(saidBy(sent)).toEqual(undisturbed.said);
        expect((await computed(answers)) - before).toBeLessThan(BLOCK_TOKENS);
      }
      await rig.atRest();
      await untilFree(reads, answers);
    });

    test("a caller that leaves in any phase leaves no block behind its lease", async () => {
      const { rig } = await rigged();
      for (let round = 0; round < ROUNDS; round += 1) {
        const phases: readonly ((sent: ReturnType<FrontRig["send"]>) => Promise<unknown>)[] = [
          async () => wait(5 * round),
          async ({ calls }) => until(() => calls.prefilledAt !== undefined, "it is handed over"),
          async ({ events }) => until(() => events.some(({ kind }) => kind?.$case === "blockDelta"), "it is answered"),
        ];
        for (const phase of phases) {
          const sent = rig.send(asked(0, { maxOutputTokens: 400 }));
          await Promise.race([phase(sent), sent.outcome]);
          sent.leave();
          await sent.outcome;
        }
      }
      await rig.atRest();
      await untilFree(reads, answers);
    });

    test("an answer whose node is lost goes on at another one", async () => {
      for (let round = 0; round < ROUNDS; round += 1) {
        const { rig, wire, close } = await rigged(true);
        const request = asked(0, { maxOutputTokens: 60 });
        const undisturbed = await alone(request);
        const sent = rig.send(request);
        await until(() => sent.events.some(({ kind }) => kind?.$case === "blockDelta"), "it is answered");
        wire.cut();
        expect(await settle(rig, sent.outcome)).toBe("ok");
        expect(saidBy(sent)).toEqual(undisturbed.said);
        close();
      }
      await untilFree(reads, answers);
    });

    test("an engine that reads is killed before, at and behind its hand-over: all is answered", async () => {
      const { rig } = await rigged();
      const phases: readonly ((sent: ReturnType<FrontRig["send"]>) => Promise<unknown>)[] = [
        async () => wait(50),
        async ({ calls }) => until(() => calls.prefilledAt !== undefined, "it is handed over"),
        async ({ events }) => until(() => events.some(({ kind }) => kind?.$case === "blockDelta"), "it is answered"),
      ];
      for (let round = 0; round < ROUNDS; round += 1) {
        const request = asked(0);
        const undisturbed = await alone(request);
        const sent = rig.send(request);
        await Promise.race([phases[round % phases.length]?.(sent), sent.outcome]);
        reads.engine.kill();
        expect(await settle(rig, sent.outcome)).toBe("ok");
        expect(saidBy(sent)).toEqual(undisturbed.said);
        const next = rig.send(asked(1));
        expect(await settle(rig, next.outcome)).toBe("ok");
        await reads.engine.untilUp();
        await settleUntil(rig, () => rig.manager.clusters.every((one) => one.healthyEndpoints.length > 0));
      }
      await untilFree(reads, answers);
    });
  });

  test("two real engines of which one does not fit answer all the same", async () => {
    const other = await startSide("other", { dtype: "bfloat16" });
    onTestFinished(() => stopSide(other));
    for (let round = 0; round < ROUNDS; round += 1) {
      const request = asked(round);
      const undisturbed = await alone(request);
      const before = await computed(answers);
      const answer = await take(request, await make(request, other));
      expect(answer.code).toBe(0);
      expect(answer.tokens).toEqual(undisturbed.tokens);
      expect(await computed(answers)).toBeGreaterThan(before);
    }
    await untilFree(answers, other);
  });
});

if (!lane?.installed) test.skip("vllm is not installed", () => {});
