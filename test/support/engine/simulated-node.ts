import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import { SIMULATOR_DEFAULTS, SimulatorBackend, type SimulatorOptions } from "./simulator/simulator-backend.ts";

const FAST = {
  ...SIMULATOR_DEFAULTS,
  nodeId: "n1",
  models: ["svc-qwen"],
  tokensPerSecond: 1_000,
  prefillTokensPerSecond: 1_000_000,
  timeToFirstTokenMs: 1,
  slots: 4,
  contextTokens: 100_000,
  kvTokens: 400_000,
  answerTokens: { min: 50, max: 50 },
};

/** Creates a fast simulator, whose answers have 50 tokens in a twentieth of a second. */
export function fastSimulator(options: Partial<SimulatorOptions> = {}, clock: Clock = systemClock) {
  return new SimulatorBackend({ ...FAST, ...options }, clock);
}
