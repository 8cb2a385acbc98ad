import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
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
  { program: "bench", main: "test/bench/main.js" },
])("$program --version prints its name and the version of package.json, and does nothing else", async (row) => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(ROOT, "dist", row.main), "--version"]);
  expect({ stdout, stderr }).toEqual({ stdout: `svc-${row.program} ${version}\n`, stderr: "" });
});
