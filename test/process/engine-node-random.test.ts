import { queryObjects } from "node:v8";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { EventWriter } from "../../engine/calls/event-writer.ts";
import { GenerationCall } from "../../engine/calls/generation-call.ts";
import { ReasoningMode } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { NodeClient } from "../support/engine/node-client.ts";
import { randomCalls } from "../support/engine/random-calls.ts";
import { fastSimulator } from "../support/engine/simulated-node.ts";
import { SimulatedGeneration } from "../support/engine/simulator/simulated-generation.ts";
import type { SimulatorBackend } from "../support/engine/simulator/simulator-backend.ts";
import { type RunningNode, startNode } from "../support/engine/start-node.ts";
import { eventually } from "../support/eventually.ts";
import { generateRequest, toolOf } from "../support/requests/generate-request.ts";

const REQUESTS = 200;
const AT_ONCE = 24;

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

type Rig = { readonly backend: SimulatorBackend; readonly node: RunningNode; readonly client: NodeClient };

async function startRig(options: Parameters<typeof startNode>[1] = {}): Promise<Rig> {
  const backend = fastSimulator({ slots: 4, queueLength: 16, kvTokens: 60_000, answerTokens: { min: 1, max: 120 } });
  const node = await startNode(backend, { maxStepAgeMs: 30_000, ...options });
  const client = new NodeClient(node.address);
  stops.push(node.stop, () => client.close());
  return { backend, node, client };
}

const round = ({ client }: Rig) =>
  randomCalls(client, {
    ...{ requests: REQUESTS, atOnce: AT_ONCE, deadlineMs: 60 },
    request(random, number) {
      const tools =
        random.below(3) === 0 ? [toolOf("read", { type: "object", properties: { a: {} }, required: ["a"] })] : [];
      const mode = tools.length > 0 ? ToolChoiceMode.REQUIRED : ToolChoiceMode.AUTO;
      const maxBatchDelay = { seconds: 0, nanos: random.below(30) * 1_000_000 };
      return generateRequest(
        {
          ...{ requestId: `r${number}`, tenant: `t${random.below(3)}`, priority: random.below(3) - 1, tools },
          toolChoice: { mode, name: "", disableParallelCalls: false, allowedNames: [] },
          ...(random.below(2) === 0 && { maxOutputTokens: 1 + random.below(60) }),
          ...(random.below(4) === 0 && { reasoning: { mode: ReasoningMode.ENABLED, effort: 0 } }),
          ...(random.below(3) === 0 && { stream: { maxBatchDelay } }),
        },
        `${"word ".repeat(random.below(4_000))}${number}`,
      );
    },
  });

async function idle({ backend, node }: Rig): Promise<void> {
  await eventually(() => expect(backend.load()).toMatchObject({ busySlots: 0, waiting: 0, kvTokensUsed: 0 }));
  await eventually(async () => expect(await node.gauge("svc_engine_running")).toBe(0));
}

test("200 random requests on four slots: every stream is legal, and every slot is free after", async () => {
  const rig = await startRig();
  const { node, client } = rig;
  await round(rig);
  await idle(rig);
  expect(node.lines.filter(({ outcome }) => outcome === "ENGINE_ERROR" || outcome === "PROTOCOL_VIOLATION")).toEqual(
    [],
  );

  // All four slots accept work again at once.
  const again = Array.from({ length: 4 }, (_, at) => client.generate(generateRequest({}, `again ${at}`)));
  await Promise.all(again.map((reading) => reading.seen("started")));
  for (const reading of again) expect((await reading.ended).code).toBe(0);
});

/** Returns how many generations of the node and of the engine are in memory, by class, after a garbage collection. */
function kept(): Readonly<Record<string, number>> {
  const kinds = [GenerationCall, EventWriter, SimulatedGeneration];
  return Object.fromEntries(kinds.map((kind) => [kind.name, queryObjects(kind, { format: "count" })]));
}

const NONE = { GenerationCall: 0, EventWriter: 0, SimulatedGeneration: 0 };
const ROUNDS = 4;
/** The first rounds fill caches of fixed size and compile the code. */
const WARM_ROUNDS = 2;
/** Half of the prompts' size in the later rounds: the compiler continues to use memory. */
const MAX_GROWTH_BYTES = 2 * 1024 * 1024;

test("memory is flat: repeated random requests leave nothing behind", async () => {
  const rig = await startRig({ log: pino({ level: "silent" }) });
  const used: number[] = [];
  for (let at = 0; at < ROUNDS; at += 1) {
    await round(rig);
    await idle(rig);
    kept();
    used.push(process.memoryUsage().heapUsed);
  }
  const growth = (used.at(-1) ?? 0) - (used[WARM_ROUNDS - 1] ?? 0);
  expect(growth).toBeLessThan(MAX_GROWTH_BYTES);
  // Rarely, a few finished generations stay for a while, and it is not known yet what holds them. A leak outlasts each round.
  await eventually(async () => {
    await round(rig);
    await idle(rig);
    expect(kept()).toEqual(NONE);
  });
}, 300_000);
