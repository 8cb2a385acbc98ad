import { SimulatorBackend } from "../../../../../engine/backends/simulator/simulator-backend.ts";
import type { SimulatorOptions } from "../../../../../engine/backends/simulator/simulator-options.ts";
import type { Event, GenerateRequest } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const OPTIONS: SimulatorOptions = {
  nodeId: "n1",
  models: ["svc-qwen"],
  tokensPerSecond: 100,
  prefillTokensPerSecond: 10_000,
  timeToFirstTokenMs: 50,
  slots: 2,
  queueLength: 2,
  contextTokens: 100_000,
  kvTokens: 100_000,
  answerTokens: { min: 10, max: 10 },
  jitter: 0,
  seed: 7,
  failure: "none",
  stepProcess: false,
};

/** Creates a simulator on a virtual clock. */
export function simulator(options: Partial<SimulatorOptions> = {}) {
  const clock = new VirtualClock();
  return { clock, backend: new SimulatorBackend({ ...OPTIONS, ...options }, clock) };
}

/** An event with its time. */
type Heard = { readonly atMs: number; readonly event: Event };
/** A generation that is being read. */
export type Play = {
  readonly heard: Heard[];
  readonly leave: AbortController;
  /** Settles at the end, with the thrown error, if any. */
  readonly over: Promise<unknown>;
};

/** Reads a generation as fast as it comes. */
export function play({ clock, backend }: ReturnType<typeof simulator>, request: GenerateRequest): Play {
  const heard: Heard[] = [];
  const leave = new AbortController();
  const read = async () => {
    for await (const { events } of backend.generate(request, leave.signal))
      for (const event of events) heard.push({ atMs: clock.nowMs(), event });
  };
  return { heard, leave, over: read().catch((error: unknown) => error) };
}

/** Returns the deltas so far. */
export function deltas({ heard }: Play): readonly Heard[] {
  return heard.filter(({ event }) => event.kind?.$case === "blockDelta");
}
