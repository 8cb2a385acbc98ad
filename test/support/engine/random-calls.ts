import { expect } from "vitest";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { SeededRandom } from "../seeded-random.ts";
import type { NodeClient } from "./node-client.ts";

type Habit = "reads" | "cancels" | "deadline" | "slow";

/** The gRPC statuses with which each habit's calls may end: OK, CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED. */
const CODES: Readonly<Record<Habit, readonly number[]>> = {
  ...{ reads: [0, 8], slow: [0, 8], cancels: [0, 1, 8], deadline: [0, 4, 8] },
};
const SEED = 20_261_121;

export type RandomCalls = {
  readonly requests: number;
  /** How many run at once. */
  readonly atOnce: number;
  /** The most milliseconds that a deadline leaves. */
  readonly deadlineMs: number;
  readonly request: (random: SeededRandom, number: number, isSlow: boolean) => GenerateRequest;
};

/** Makes requests of callers that read, leave, set deadlines or read slowly; all streams must be legal. */
export async function randomCalls(client: NodeClient, calls: RandomCalls): Promise<void> {
  const random = new SeededRandom(SEED);
  const outcomes: Record<string, number> = {};
  const one = async (number: number) => {
    const habit = random.pick<Habit>(["reads", "reads", "cancels", "deadline", "slow"]);
    const request = calls.request(random, number, habit === "slow");
    const [leaveAfter, leftMs] = [random.below(12), random.below(calls.deadlineMs)];
    const reading = client.generate(request, habit === "deadline" ? { deadline: Date.now() + leftMs } : {});
    if (habit === "cancels" && leaveAfter === 0) reading.call.cancel();
    reading.call.on("data", () => {
      if (habit === "cancels" && reading.events.length >= leaveAfter) reading.call.cancel();
      if (habit !== "slow") return;
      reading.call.pause();
      setTimeout(() => reading.call.resume(), 2);
    });
    const { code, info } = await reading.ended;
    const what = `request ${number} of seed ${SEED}`;
    expect(reading.legal(), what).toBe(true);
    expect(CODES[habit], what).toContain(code);
    if (code === 0) expect(reading.finished(), what).toBe(true);
    if (code === 8) expect(info?.reason).toBe("QUEUE_FULL");
    outcomes[`${habit} ${code}`] = (outcomes[`${habit} ${code}`] ?? 0) + 1;
  };
  let next = 0;
  const worker = async () => {
    while (next < calls.requests) await one(next++);
  };
  await Promise.all(Array.from({ length: calls.atOnce }, worker));
  // Every habit must have had its effect; otherwise the calls would prove nothing.
  const some = expect.any(Number);
  expect(outcomes).toMatchObject({ "reads 0": some, "slow 0": some, "cancels 1": some, "deadline 4": some });
}
