import { execFile, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));

test.each([
  { program: "gateway", main: "gateway/main.js" },
  { program: "engine", main: "engine/main.js" },
  { program: "keys", main: "gateway/keys/cli/main.js" },
  { program: "start", main: "deploy/local/main.js" },
  { program: "launch", main: "deploy/local/launch/main.js" },
  { program: "bench", main: "test/bench/main.js" },
])("$program --version prints its name and the version of package.json, and does nothing else", async (row) => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(ROOT, "dist", row.main), "--version"]);
  expect({ stdout, stderr }).toEqual({ stdout: `svc-${row.program} ${version}\n`, stderr: "" });
});

test.each([
  { program: "deploy/svc.mjs completion" },
  { program: "deploy/svc.mjs keys --help" },
  { program: "dist/gateway/keys/cli/main.js --help" },
  { program: "dist/gateway/main.js --help" },
])("$program ends without an error where its reader has ended before it", ({ program }) => {
  const [file = "", ...args] = program.split(" ");
  const piped = ["-o", "pipefail", "-c", '"$@" | true', "bash", process.execPath, join(ROOT, file), ...args];
  const { status, stderr } = spawnSync("bash", piped, { encoding: "utf8" });
  expect([status, stderr]).toEqual([0, ""]);
});

test("--check-config checks a configuration without starting anything", async () => {
  const folder = await mkdtemp(join(tmpdir(), "svc-check-"));
  const file = join(folder, "engine.yaml");
  await writeFile(file, `nodeId: \${NODE}\nmodels: [m]\nbackend: { kind: scripted }\n`);
  const check = (env: Record<string, string>) =>
    promisify(execFile)(process.execPath, [join(ROOT, "dist/engine/main.js"), "--config", file, "--check-config"], {
      env,
    });
  expect(await check({ NODE: "engine-7" })).toEqual({ stdout: `${file} is fine\n`, stderr: "" });
  await expect(check({})).rejects.toMatchObject({
    code: 2,
    stderr: [
      `engine: ${file}: nodeId: the environment has no NODE\n`,
      `engine: see "When a start is refused" in deploy/docs/run-as-a-service.md\n`,
    ].join(""),
  });
  await rm(folder, { recursive: true });
});
