import { execFile, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fixedSentence, ScriptedBackend } from "../support/engine/scripted-backend.ts";
import { type RunningNode, startNode } from "../support/engine/start-node.ts";
import { textAnswer } from "../support/events/events.ts";
import { type ScriptedService, startScriptedService } from "../support/gateway/scripted-service.ts";

/*
 * Clients with only an address and a key: those of `test/examples/` in Python and Go, and buf. All of them read the
 * contract by reflection.
 */

const ROOT = join(import.meta.dirname, "../..");
const SERVICE = "svc.inference.v1.InferenceService";
/** A Python with `grpcio-reflection`: from the environment, or as `.ci/run` installs it. */
const PYTHON = process.env.SVC_TEST_PYTHON ?? join(ROOT, ".tools/bin/python");
const hasPython = existsSync(PYTHON) && spawnSync(PYTHON, ["-c", "import grpc_reflection"]).status === 0;
const hasGo = spawnSync("go", ["version"]).status === 0;
const BUF = join(ROOT, "node_modules/.bin/buf");
const QUESTION = JSON.stringify({
  model: "svc-qwen",
  messages: [{ role: "ROLE_USER", parts: [{ text: { text: "hi" } }] }],
});

let service: ScriptedService;
let node: RunningNode;

beforeAll(async () => {
  service = await startScriptedService({ gateway: { grpc: { port: 0 } } });
  service.play(() => [textAnswer("Hello", " there.")]);
  const backend = new ScriptedBackend({ nodeId: "n1", models: ["svc-qwen"], slots: 1, script: fixedSentence });
  node = await startNode(backend, { reflection: true });
});

afterAll(async () => {
  await node.stop();
  await service.stop();
});

type Ran = { readonly code: unknown; readonly out: string; readonly error: string };

/** Runs a program to its end, while this process serves it. */
function run(program: string, args: readonly string[], cwd = ROOT): Promise<Ran> {
  const limits = { cwd, timeout: 240_000, env: { ...process.env, GOFLAGS: "-mod=mod" } };
  return new Promise((resolve) => {
    execFile(program, args, limits, (failure, out, error) => resolve({ code: failure?.code ?? 0, out, error }));
  });
}

const bufCurl = (address: string, path: string, ...args: readonly string[]) =>
  run(BUF, ["curl", "--protocol", "grpc", "--http2-prior-knowledge", ...args, `http://${address}${path}`]);
const withKey = () => ["-H", `authorization: Bearer ${service.gateway.key}`];

describe("buf", () => {
  test("buf lists the gateway's service, and calls it", async () => {
    const { grpcAddress } = service.gateway;
    const listed = await bufCurl(grpcAddress, "", "--list-methods", ...withKey());
    expect(listed.out.split("\n").filter((line) => line.startsWith("svc."))).toEqual([
      `${SERVICE}/CountTokens`,
      `${SERVICE}/Generate`,
    ]);
    const answered = await bufCurl(grpcAddress, `/${SERVICE}/Generate`, ...withKey(), "-d", QUESTION);
    expect(answered.error).toBe("");
    expect(answered.out).toContain("Hello");
  });

  test("buf is refused without a key, although it may read the contract", async () => {
    const refused = await bufCurl(service.gateway.grpcAddress, `/${SERVICE}/Generate`, "-d", QUESTION);
    expect(refused.error).toContain("unauthenticated");
  });

  test("calls a node that may be asked", async () => {
    const answered = await bufCurl(node.address, `/${SERVICE}/Generate`, "-d", QUESTION);
    expect(answered.error).toBe("");
    expect(answered.out).toContain("finished");
  });
});

test.skipIf(!hasPython)("the Python client gets an answer, and the reason of a failure", async () => {
  const example = join(ROOT, "test/examples/python/generate.py");
  const { grpcAddress, key } = service.gateway;
  expect(await run(PYTHON, [example, grpcAddress, key, "hi"])).toEqual({
    code: 0,
    out: "Hello there.",
    error: "\n7 tokens\n",
  });
  const refused = await run(PYTHON, [example, grpcAddress, key, "hi", "--model", "svc-nothing"]);
  expect(refused).toMatchObject({ code: 1, error: expect.stringContaining("NOT_FOUND: The model") });
});

test.skipIf(!hasPython)("the same client gets an answer of a node that may be asked", async () => {
  const example = join(ROOT, "test/examples/python/generate.py");
  const ran = await run(PYTHON, [example, node.address, "no key is needed there", "hi"]);
  expect(ran).toMatchObject({ code: 0, error: expect.stringContaining("tokens") });
  expect(ran.out).not.toBe("");
});

test.skipIf(!hasGo)("the client in Go gets an answer", async () => {
  const { grpcAddress, key } = service.gateway;
  const fast = ["-gcflags=all=-N -l", "-ldflags=-s -w"];
  const ran = await run("go", ["run", ...fast, ".", grpcAddress, key, "hi"], join(ROOT, "test/examples/go"));
  expect(ran).toMatchObject({ code: 0, out: "Hello there.\n" });
});
