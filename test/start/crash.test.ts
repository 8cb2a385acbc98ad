import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { endKindsOf, mostTokens, openStreams } from "../support/processes/open-streams.ts";
import { processesWith } from "../support/processes/processes-with.ts";
import {
  adminText,
  answers,
  gatewayProcess,
  isLive,
  type Service,
  startService,
  startSimulated,
} from "../support/processes/start-service.ts";

/* An uncaught error in a process. */

/** In base64, as stack traces show it. */
function moduleUrl(source: string): string {
  return `data:text/javascript;base64,${Buffer.from(source).toString("base64")}`;
}

const CANARY = "canary-1f6a";
/** Loaded in every process before its program: the signals simulate bugs. */
const MISTAKES = `
process.on("SIGUSR2", () => { Promise.reject(new TypeError("${CANARY}\\n    at ${CANARY}")); });
process.on("SIGWINCH", () => { throw Object.assign(new Error("${CANARY}"), { code: "EMFILE" }); });
`;
const env = { NODE_OPTIONS: `--import=${moduleUrl(MISTAKES)}` };

describe.runIf(process.platform === "linux")("an uncaught error", () => {
  // One for all tests: each leaves it unchanged.
  let service: Service;
  beforeAll(async () => {
    service = await startSimulated({ env });
  });
  afterAll(async () => {
    await service?.stop("SIGKILL");
  });

  function newlySaid(): () => string {
    const { length } = service.said();
    return () => service.said().slice(length);
  }

  function crashLine(said: string): Record<string, unknown> {
    const line = said.split("\n").find((one) => one.includes("uncaught error"));
    return JSON.parse(line ?? "{}");
  }

  test.each([
    { signal: "SIGUSR2", said: { error: "TypeError", origin: "unhandledRejection" } },
    { signal: "SIGWINCH", said: { error: "Error", code: "EMFILE", origin: "uncaughtException" } },
  ] as const)(
    "in a gateway ($signal): it finishes its streams, ends with 1 and is replaced",
    async ({ signal, said }) => {
      const output = newlySaid();
      const streams = await openStreams(service, 3, { fields: mostTokens(60) });
      process.kill(gatewayProcess(service), signal);
      expect(await endKindsOf(streams)).toEqual(Array(3).fill("complete"));
      await becomes(async () => output().includes("gateway ended (exit code 1)"), "it has ended");
      const { at, ...line } = crashLine(output());
      expect(line).toMatchObject({ level: 60, ...said });
      expect(at).toContainEqual(expect.stringMatching(/^at /));
      expect(service.said()).not.toContain(CANARY);
      await becomes(() => isLive(service), "it is there again");
      expect(await answers(service)).toBe(true);
    },
  );

  test("in an engine: it finishes its generations, ends with 1 and is replaced", async () => {
    const output = newlySaid();
    const streams = await openStreams(service, 3, { fields: mostTokens(60) });
    const [engine = 0] = processesWith(`${service.stateDir}/engine-1.yaml`);
    process.kill(engine, "SIGUSR2");
    expect(await endKindsOf(streams)).toEqual(Array(3).fill("complete"));
    await becomes(async () => output().includes("engine 1 ended (exit code 1)"), "it has ended");
    expect(crashLine(output())).toMatchObject({ error: "TypeError", origin: "unhandledRejection" });
    expect(service.said()).not.toContain(CANARY);
    await becomes(() => answers(service), "it is there again");
    expect(await service.stop()).toBe(0);
  });
});

test("an engine that is killed by order of the admin port loses no answer, and is replaced", async () => {
  const service = await startSimulated({ args: ["--engines", "2"] });
  try {
    const streams = await openStreams(service, 6, { fields: mostTokens(60) });
    expect(await adminText(service, `/endpoint/${service.engine}/kill`, "POST")).toContain("killed");
    expect(await endKindsOf(streams)).toEqual(Array(6).fill("complete"));
    await becomes(async () => service.said().includes("engine 1 ended (SIGKILL"), "it is killed");
    expect(await adminText(service, "/endpoint/127.0.0.1:1/kill", "POST")).toContain("no engine that was started");
    await becomes(async () => service.said().includes("engine 1 is ready again"), "it is there again");
    expect(await isLive(service)).toBe(true);
    expect(service.said()).not.toContain("engine 2 ended");
    expect(await service.stop()).toBe(0);
  } finally {
    await service.stop("SIGKILL");
  }
});

test("without the package of llama.cpp, a line names it and the remedy", async () => {
  const resolve = `
export async function resolve(name, context, next) {
  if (name === "node-llama-cpp") throw Object.assign(new Error("not found"), { code: "ERR_MODULE_NOT_FOUND" });
  return next(name, context);
}`;
  const missing = `import { register } from "node:module"; register("${moduleUrl(resolve)}");`;
  const NODE_OPTIONS = `--import=${moduleUrl(missing)}`;
  const failure = startService([0, 0, 0], { env: { NODE_OPTIONS } }).catch((error: Error) => error.message);
  const message = String(await failure);
  expect(message).toContain("engine: The package node-llama-cpp could not be loaded. Install the project");
  expect(message).toContain("start: engine 1 did not start (exit code 1)");
  expect(message).not.toMatch(/^\s+at /m);
});
