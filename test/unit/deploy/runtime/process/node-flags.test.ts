import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { NODE_FLAGS } from "../../../../../deploy/runtime/process/node-flags.ts";

const ROOT = join(import.meta.dirname, "../../../../..");
const textOf = (path: string) => readFileSync(join(ROOT, path), "utf8");

test("Node takes the flags", () => {
  const { stdout, stderr, status } = spawnSync(process.execPath, [...NODE_FLAGS, "-p", "process.execArgv.join()"], {
    encoding: "utf8",
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(stdout).toContain(NODE_FLAGS.join());
});

test("the npm scripts and the guide for operators start the programs with them", () => {
  const { scripts } = JSON.parse(textOf("package.json")) as { readonly scripts: Readonly<Record<string, string>> };
  const guide = textOf("deploy/docs/run-as-a-service.md");
  for (const name of ["gateway", "engine"]) {
    const command = `node ${NODE_FLAGS.join(" ")} dist/${name}/main.js`;
    expect(scripts[name]).toContain(`exec ${command}`);
    expect(guide).toContain(`\n${command} --config`);
  }
});
