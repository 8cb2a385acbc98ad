import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

const MODULE = join(import.meta.dirname, "../../../dist/deploy/runtime/process/heap-use.js");
const OLD_MIB = 300;
const MIB = 1024 * 1024;

function measured(flags: readonly string[]): { usedBytes: number; limitBytes: number } {
  const script = `
    import { heapUse, measureYoungGeneration } from ${JSON.stringify(MODULE)};
    await measureYoungGeneration();
    console.log(JSON.stringify(heapUse()));`;
  const args = [`--max-old-space-size=${OLD_MIB}`, ...flags, "--input-type=module", "--eval", script];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8" }));
}

test.each([[[]], [["--max-semi-space-size=8"]], [["--max_semi_space_size=10"]]])(
  "the heap's limit is that of its old generation, whatever V8 reserves for the young one: %j",
  (flags) => {
    const { usedBytes, limitBytes } = measured(flags);
    expect(limitBytes).toBe(OLD_MIB * MIB);
    expect(usedBytes).toBeGreaterThan(MIB);
    expect(usedBytes).toBeLessThan(50 * MIB);
  },
);
