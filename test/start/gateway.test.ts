import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { endKindsOf, mostTokens, openStreams } from "../support/processes/open-streams.ts";
import { processesWith } from "../support/processes/processes-with.ts";
import {
  adminText,
  answers,
  gatewayProcess,
  isLive,
  type Service,
  startSimulated,
} from "../support/processes/start-service.ts";

/* The gateway of `npm start` as a process: its replacement and its end. */

let service: Service;
const end = async () => void (await service?.stop("SIGKILL"));

async function kill(): Promise<void> {
  const noticed = () => service.said().split("gateway ended (SIGKILL: was there too little memory for it?)").length;
  const before = noticed();
  process.kill(gatewayProcess(service), "SIGKILL");
  await becomes(async () => noticed() > before, "its end is noticed");
}

async function untilBack(): Promise<void> {
  await becomes(() => isLive(service), "the gateway serves again");
  expect(await answers(service)).toBe(true);
}

/** Opens a stream of each format. */
const begin = (tokens: number) => openStreams(service, 3, { fields: mostTokens(tokens) });

describe.runIf(process.platform === "linux")("a gateway that ends", () => {
  // Every test leaves it unchanged.
  beforeAll(async () => {
    service = await startSimulated();
  });
  afterAll(end);

  test("a gateway that is ended by force cuts its streams and is started again in its place", async () => {
    const streams = await begin(200);
    const ends = endKindsOf(streams);
    await kill();
    // `fetch` takes the end of a connection that is to be closed for the end of the answer.
    expect(await ends).toEqual(["truncated", "truncated", "truncated"]);
    await untilBack();
  });

  test("a gateway that is ended by order of its admin listener finishes its streams first", async () => {
    const streams = await begin(100);
    await adminText(service, "/drain_listeners", "POST");
    await becomes(
      async () => (await adminText(service, "/listeners"))?.includes("public") === false,
      "it listens no more",
    );
    expect(await adminText(service, "/ready")).toBe("DRAINING\n");
    await adminText(service, "/quitquitquit", "POST");
    expect(await endKindsOf(streams)).toEqual(["complete", "complete", "complete"]);
    await becomes(async () => service.said().includes("gateway ended (exit code 0)"), "it has ended");
    await untilBack();
  });
});

describe.runIf(process.platform === "linux")("stopping", () => {
  afterEach(end);

  test("stopping lets answers complete, and ends slow ones with an error frame", async () => {
    service = await startSimulated();
    const short = await begin(60);
    const long = await begin(2_000);
    // As a service manager does: only the first process receives the signal.
    service.process.kill("SIGTERM");
    expect(await endKindsOf(short)).toEqual(["complete", "complete", "complete"]);
    expect(await endKindsOf(long)).toEqual(["error", "error", "error"]);
    expect(await service.stop()).toBe(0);
    expect(processesWith(service.stateDir)).toEqual([]);
  });

  test("stopping for a second time ends running answers", async () => {
    service = await startSimulated();
    const streams = await begin(2_000);
    const deltas = () => streams.map(({ body }) => body.text().split("data: ").length);
    const before = deltas();
    const ended = endKindsOf(streams);
    const again = setInterval(() => service.process.kill("SIGTERM"), 100);
    expect(await ended).toEqual(["error", "error", "error"]);
    clearInterval(again);
    // At 50 tokens a second, the whole drain time would allow 250.
    for (const [index, count] of deltas().entries()) expect(count - (before[index] ?? 0)).toBeLessThan(150);
    expect(await service.stop()).toBe(0);
  });

  test("the first process by force leaves nothing running, and ends streams in an error frame", async () => {
    service = await startSimulated();
    const streams = await begin(2_000);
    service.process.kill("SIGKILL");
    expect(await endKindsOf(streams)).toEqual(["error", "error", "error"]);
    await becomes(async () => processesWith(service.stateDir).length === 0, "all have ended");
  });
});
