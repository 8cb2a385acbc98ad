import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../deploy/runtime/time/clock.ts";
import { GrammarCompiler } from "../../engine/backends/llama/grammar/grammar-compiler.ts";
import type { GrammarInput } from "../../engine/backends/llama/grammar/grammar-input.ts";
import { never } from "../support/engine/demo-engine.ts";
import { HERMES_MARKERS } from "../support/engine/hermes-markers.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

const ROOT = join(import.meta.dirname, "../..");
/** Inside the project, so that the program finds its libraries. */
const BUILT = join(ROOT, "node_modules/.cache", `grammar-worker-${process.pid}`);

const input = (schema: object, more: Partial<GrammarInput> = {}): GrammarInput => ({
  tools: [],
  mustCall: false,
  maxCalls: Number.POSITIVE_INFINITY,
  constraint: {
    kind: { $case: "jsonSchema", value: { name: "x", schemaJson: JSON.stringify(schema), strict: true } },
  },
  reasoning: "none",
  markers: HERMES_MARKERS,
  ...more,
});
/** Programs that stand in for one that a schema has brought down. */
const program = (body: string) =>
  new URL(
    `data:text/javascript,import { parentPort } from "node:worker_threads"; parentPort.on("message", (input) => { ${body}; parentPort.postMessage({ grammar: "fine" }); });`,
  );

let compiler: GrammarCompiler;
afterEach(() => compiler.close());

describe("on a thread, with the program as it is deployed", () => {
  beforeAll(() => {
    const options =
      "--module nodenext --target es2023 --types node --strict --skipLibCheck --rewriteRelativeImportExtensions";
    const files = ["engine/backends/llama/grammar/grammar-worker.ts", "--rootDir", ".", "--outDir", BUILT];
    execFileSync(join(ROOT, "node_modules/.bin/tsc"), ["--ignoreConfig", ...options.split(" "), ...files], {
      cwd: ROOT,
    });
    writeFileSync(join(BUILT, "package.json"), '{"type":"module"}');
  }, 60_000);
  afterAll(() => rmSync(BUILT, { recursive: true, force: true }));

  test("schemas come back as grammars, or with why they cannot", async () => {
    const built = pathToFileURL(join(BUILT, "engine/backends/llama/grammar/grammar-worker.js"));
    compiler = new GrammarCompiler({ clock: systemClock, program: built });
    const [good, bad, unenforced] = await Promise.allSettled([
      compiler.compile(input({ enum: ["yes", "no"] }), never()),
      compiler.compile(input({ properties: { a: { type: "x" } } }), never()),
      compiler.compile(input({ items: { not: {} } }), never()),
    ]);
    expect(good).toMatchObject({ value: expect.stringContaining("yes") });
    const field = "output_constraint.json_schema.schema_json";
    expect(bad).toMatchObject({
      reason: { reason: "INVALID_SCHEMA", facts: { field, pointer: "/properties/a/type" } },
    });
    expect(unenforced).toMatchObject({ reason: { reason: "INVALID_SCHEMA", facts: { field, pointer: "/items/not" } } });
  }, 60_000);
});

test("a schema that takes too long is refused, and those behind it are not", async () => {
  const clock = new VirtualClock();
  compiler = new GrammarCompiler({ clock, program: program("if (input.mustCall) for (;;);") });
  const outcome = Promise.allSettled([
    compiler.compile(input({}, { mustCall: true }), never()),
    compiler.compile(input({}), never()),
  ]);
  await clock.advance(5000);
  expect(await outcome).toMatchObject([{ reason: { reason: "INVALID_SCHEMA" } }, { value: "fine" }]);
});

test("a schema that takes too much memory is refused, and the next is not", async () => {
  compiler = new GrammarCompiler({
    clock: new VirtualClock(),
    program: program("if (input.mustCall) for (const all = []; ; ) all.push(new Array(1e6).fill(input))"),
  });
  await expect(compiler.compile(input({}, { mustCall: true }), never())).rejects.toMatchObject({
    reason: "INVALID_SCHEMA",
  });
  expect(await compiler.compile(input({}), never())).toBe("fine");
}, 60_000);

test("a thread that ends by itself is replaced, in its work and out of it", async () => {
  const clock = new VirtualClock();
  const dies = "if (input.mustCall) process.exit(1); if (input.maxCalls) setImmediate(() => process.exit(1))";
  compiler = new GrammarCompiler({ clock, program: program(dies) });
  await expect(compiler.compile(input({}, { mustCall: true }), never())).rejects.toMatchObject({
    reason: "INVALID_SCHEMA",
  });
  expect(await compiler.compile(input({}, { maxCalls: 1 }), never())).toBe("fine");
  const again = () => compiler.compile(input({}), never()).catch(() => "died while it was asked");
  await expect.poll(again).toBe("fine");
});

test("nothing is done for callers who have left while they waited", async () => {
  compiler = new GrammarCompiler({ clock: systemClock, program: program("") });
  const first = compiler.compile(input({}), never());
  await expect(compiler.compile(input({}), AbortSignal.abort())).rejects.toMatchObject({ reason: "CANCELLED" });
  expect(await first).toBe("fine");
});

test("closing ends those who wait", async () => {
  compiler = new GrammarCompiler({ clock: systemClock, program: program("for (;;);") });
  const outcome = Promise.allSettled([compiler.compile(input({}), never()), compiler.compile(input({}), never())]);
  await compiler.close();
  expect(await outcome).toMatchObject([{ reason: { reason: "ENGINE_DOWN" } }, { reason: { reason: "ENGINE_DOWN" } }]);
});
