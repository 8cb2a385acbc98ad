import { spawnSync } from "node:child_process";

import { expect, test } from "vitest";
import { memoryEnv } from "../../../../../deploy/runtime/process/memory-env.ts";

test("the first jemalloc that the system has is used, and glibc is told what it may keep", () => {
  const asked: string[] = [];
  const env = memoryEnv((path) => {
    asked.push(path);
    return asked.length === 2;
  });
  expect(asked.every((path) => path.startsWith("/usr/lib") && path.endsWith("/libjemalloc.so.2"))).toBe(true);
  expect(env).toMatchObject({ LD_PRELOAD: asked[1], MALLOC_MMAP_THRESHOLD_: "262144" });
  expect(memoryEnv(() => false)).toEqual({ MALLOC_MMAP_THRESHOLD_: "262144" });
});

test("a process that is started so runs with it", () => {
  const env = memoryEnv();
  const maps = "process.stdout.write(require('node:fs').readFileSync('/proc/self/maps'))";
  const { stdout, stderr, status } = spawnSync(process.execPath, ["-e", maps], { env, encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(stdout.includes("libjemalloc")).toBe("LD_PRELOAD" in env);
});
