import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import { SimulatorBackend } from "../../../engine/backends/simulator/simulator-backend.ts";
import type { SimulatorOptions } from "../../../engine/backends/simulator/simulator-options.ts";

/** Creates a fast simulator, whose answers have 50 tokens in a twentieth of a second. */
export function fastSimulator(options: Partial<SimulatorOptions> = {}, clock: Clock = systemClock) {
  return new SimulatorBackend(
    {
      nodeId: "n1",
      models: ["svc-qwen"],
      tokensPerSecond: 1_000,
      prefillTokensPerSecond: 1_000_000,
      timeToFirstTokenMs: 1,
      slots: 4,
      queueLength: 64,
      contextTokens: 100_000,
      kvTokens: 400_000,
      answerTokens: { min: 50, max: 50 },
      jitter: 0.2,
      seed: 1,
      failure: "none",
      stepProcess: false,
      ...options,
    },
    clock,
  );
}
