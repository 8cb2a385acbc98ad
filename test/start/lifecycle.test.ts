import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { processesWith } from "../support/processes/processes-with.ts";
import { START } from "../support/processes/start-service.ts";

test.runIf(process.platform === "linux")(
  "stopped during its start, it exits with 0 and leaves no process",
  async () => {
    const stateDir = await mkdtemp(join(tmpdir(), "svc-start-"));
    const ports = ["--port", "0", "--admin-port", "0", "--engine-port", "0"];
    const start = spawn(process.execPath, [START, ...ports, "--state-dir", stateDir], { stdio: "ignore" });
    const ended = once(start, "close");
    await becomes(async () => processesWith(join(stateDir, "engine-1.yaml")).length === 1, "the engine has begun");
    start.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
    expect(processesWith(stateDir)).toEqual([]);
    await rm(stateDir, { recursive: true, force: true });
  },
);

test("bad usage and bad configuration exit with 2, and name the fault", async () => {
  const run = (...args: string[]) =>
    promisify(execFile)(process.execPath, [START, ...args]).then(
      () => ({ code: 0, stderr: "" }),
      (error: { code: number; stderr: string }) => error,
    );
  expect(await run("--nonsense")).toMatchObject({ code: 2 });
  expect(await run("--port", "99999")).toMatchObject({ code: 2 });
  const model = await run("--model", "/nowhere/model.gguf", "--state-dir", await mkdtemp(join(tmpdir(), "svc-start-")));
  expect(model).toMatchObject({ code: 2 });
  expect(model.stderr).toContain("--model");
  const template = await run(
    "--chat-template",
    "/nowhere/template.jinja",
    "--state-dir",
    await mkdtemp(join(tmpdir(), "svc-start-")),
  );
  expect([template.code, template.stderr]).toEqual([
    2,
    expect.stringContaining("--chat-template: there is no readable"),
  ]);
  const folder = await run("--state-dir", join(START, "state"));
  expect([folder.code, folder.stderr]).toEqual([
    2,
    expect.stringMatching(/^start: --state-dir: .* cannot be made \(ENOTDIR\)\n$/),
  ]);
});
