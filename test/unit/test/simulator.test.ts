import { expect, test } from "vitest";
import type { Event, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { SIMULATOR_DEFAULTS, SimulatorBackend } from "../../support/engine/simulator/simulator-backend.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

/* The pace of simulated nodes, on which tests and benches of routing rely. */

function simulator(options: object = {}) {
  const clock = new VirtualClock();
  const pace = { tokensPerSecond: 100, prefillTokensPerSecond: 10_000, answerTokens: { min: 10, max: 10 } };
  const node = { nodeId: "n1", models: ["svc-qwen"] };
  return { clock, backend: new SimulatorBackend({ ...SIMULATOR_DEFAULTS, ...pace, ...node, ...options }, clock) };
}

type Timed = { readonly atMs: number; readonly event: Event };

function play({ clock, backend }: ReturnType<typeof simulator>, request: GenerateRequest) {
  const events: Timed[] = [];
  const tokens: number[] = [];
  const read = async () => {
    for await (const step of backend.generate(request, new AbortController().signal)) {
      tokens.push(...step.tokens);
      for (const event of step.events) events.push({ atMs: clock.nowMs(), event });
    }
  };
  const timesOf = (kind: string) => events.filter(({ event }) => event.kind?.$case === kind).map(({ atMs }) => atMs);
  return { events, tokens, timesOf, failure: read().catch((error: unknown) => error) };
}

const LONG = "x".repeat(8_000 - "role 2\n\nrole 3\n".length);

test("prompts are prefilled one at a time; tokens follow at the configured rate", async () => {
  const node = simulator();
  const first = play(node, generateRequest({}, LONG));
  const second = play(node, generateRequest({}, LONG.replaceAll("x", "y")));
  await node.clock.advance(60_000);
  // 2,000 tokens at 10,000 per second, then 50 ms.
  expect(first.timesOf("blockDelta")).toEqual([250, 260, 270, 280, 290, 300, 310, 320, 330, 340]);
  expect(second.timesOf("blockDelta")[0]).toBe(450);
});

test("cached tokens take no prefill time, and the oldest blocks are evicted from a full cache", async () => {
  const node = simulator({ kvTokens: 2_048 });
  const firstTokenMs = async (letter: string) => {
    const began = node.clock.nowMs();
    const { timesOf } = play(node, generateRequest({}, LONG.replaceAll("x", letter)));
    await node.clock.advance(60_000);
    return (timesOf("blockDelta")[0] ?? 0) - began;
  };
  const [cold, warm, other] = [await firstTokenMs("x"), await firstTokenMs("x"), await firstTokenMs("y")];
  expect([cold, warm, other]).toEqual([250, 60, 250]);
  expect(await firstTokenMs("x")).toBe(250);
});

test("a continuation at any token is the answer of the first node", async () => {
  const request = generateRequest({}, "hello");
  const first = simulator();
  const whole = play(first, request);
  await first.clock.advance(60_000);
  for (let cut = 0; cut <= whole.tokens.length; cut += 1) {
    const node = simulator({ nodeId: "n2" });
    const continuation = { modelRevision: "simulator-1", tokens: whole.tokens.slice(0, cut), callIds: [] };
    const rest = play(node, { ...request, continuation });
    await node.clock.advance(60_000);
    expect([await rest.failure, rest.tokens]).toEqual([undefined, whole.tokens]);
  }
});
