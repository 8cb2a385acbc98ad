import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { CrashReport } from "../../deploy/runtime/process/end-on-crash.ts";
import { WorkNotDone } from "../../deploy/runtime/threads/work-threads.ts";
import { DEFAULT_CATALOG } from "../../gateway/catalog.ts";
import { Sealing } from "../../gateway/sealing/sealing.ts";
import type { Caller } from "../../gateway/translation/translate.ts";
import { Translator } from "../../gateway/translation/translator.ts";
import { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { FORMAT_SETTINGS } from "../support/events/encoding-context.ts";
import { until } from "../support/until.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

const ROOT = join(import.meta.dirname, "../..");
/** Inside the project, so that the program finds its libraries. */
const BUILT = join(ROOT, "node_modules/.cache", `translation-${process.pid}`);
const MEBIBYTE = 1024 * 1024;

const opened: Translator[] = [];
const faults: CrashReport[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
  faults.splice(0);
});

function translator(program: URL, { clock = new VirtualClock() } = {}): Translator {
  const one = new Translator({
    ...{ sealing: new Sealing(), settings: FORMAT_SETTINGS, catalog: DEFAULT_CATALOG, clock, program },
    ...{ acceptsImages: () => false, promptBounds: () => [] },
    restoresTools: true,
    onFault: (fault) => faults.push(fault),
  });
  opened.push(one);
  return one;
}

const CALLER: Caller = {
  ...{
    requestId: "r",
    tenant: "t",
    cacheSalt: "",
    maxOutputTokens: undefined,
    usableModels: [],
    loadTests: false,
    priority: 0,
  },
  routingKey: Buffer.alloc(32),
};

function translate(by: Translator, body: object, tenant = "t", signal = new AbortController().signal) {
  const text = JSON.stringify(body) + " ".repeat(256 * 1024);
  const bytes = Buffer.from(new TextEncoder().encode(text).buffer);
  const caller = { ...CALLER, tenant };
  const order = { operation: "responses", caller, bodyBytes: bytes.length } as const;
  return by.translate({ bytes, singleKeys: ["model"] }, order, signal);
}

const says = (text: string) => ({ model: "svc-qwen", input: text });

const built = () => pathToFileURL(join(BUILT, "gateway/translation/translation-thread.js"));

/** A program that represents one blocked by a body: it never ends for the tenant `bad`. */
const stuck = new URL(
  `data:text/javascript,import { parentPort } from "node:worker_threads"; parentPort.on("message", ({ order }) => { if (order.caller.tenant === "bad") for (;;); parentPort.postMessage({ openings: {}, unknownKeys: [], end: { fault: { error: "Fine", at: [] } } }); });`,
);

const counting = new URL(
  `data:text/javascript,import { parentPort } from "node:worker_threads"; let had = 0; parentPort.on("message", () => { had = had + 1; parentPort.postMessage({ openings: {}, unknownKeys: [], end: { fault: { error: String(had), at: [] } } }); });`,
);

/** The same, and a body with `grow` leaves much memory behind. */
const GROWING = `
import { parentPort } from "node:worker_threads";
import { ofThisThread } from "./deploy/runtime/threads/work-threads.js";
const left = [];
let had = 0;
parentPort.on("message", ({ body }) => {
  had += 1;
  if (Buffer.from(body).includes("grow")) for (let at = 0; at < 2e6; at += 1) left.push({ at });
  const end = { fault: { error: String(had), at: [] } };
  parentPort.postMessage({ openings: {}, unknownKeys: [], end, ...ofThisThread() });
});
`;
const growing = () => pathToFileURL(join(BUILT, "growing.js"));

beforeAll(() => {
  const options =
    "--module nodenext --target es2023 --types node --strict --skipLibCheck --rewriteRelativeImportExtensions";
  const files = ["gateway/translation/translation-thread.ts", "--rootDir", ".", "--outDir", BUILT];
  execFileSync(join(ROOT, "node_modules/.bin/tsc"), ["--ignoreConfig", ...options.split(" "), ...files], { cwd: ROOT });
  writeFileSync(join(BUILT, "package.json"), '{"type":"module"}');
  writeFileSync(join(BUILT, "growing.js"), GROWING);
}, 60_000);
afterAll(() => rmSync(BUILT, { recursive: true, force: true }));

test("a big body is translated while the loop serves others, with the thread's memory", async () => {
  const by = translator(built());
  const text = "x".repeat(16 * MEBIBYTE);
  const bytes = Buffer.from(new TextEncoder().encode(JSON.stringify(says(text))).buffer);
  const caller = { ...CALLER, maxOutputTokens: 7 };
  const order = { operation: "responses", caller, bodyBytes: bytes.length } as const;
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  }, 1);
  const translated = await by.translate({ bytes, singleKeys: [] }, order, new AbortController().signal);
  clearInterval(timer);
  expect(bytes.byteLength).toBe(0);
  expect(turns).toBeGreaterThan(5);
  const { messages, maxOutputTokens } = GenerateRequest.decode(translated.bytes);
  expect(maxOutputTokens).toBe(7);
  expect(messages[0]?.parts[0]?.kind).toEqual({ $case: "text", value: { text } });
});

test("a small body that has to be written back unchanged goes to the thread, too", async () => {
  const by = translator(stuck);
  const bytes = Buffer.from('{"tools":[{"a":{"b":1.0}}]}');
  const order = { operation: "chat", caller: CALLER, bodyBytes: bytes.length } as const;
  const translated = by.translate({ bytes, singleKeys: [] }, order, new AbortController().signal);
  await expect(translated).rejects.toMatchObject({ code: "server_error" });
  expect(faults).toMatchObject([{ error: "Fine" }]);
});

test.each([
  [2_000, 0],
  [2_100, 1],
])("a small body of %d values goes to %d threads", async (values, threads) => {
  const by = translator(counting);
  const bytes = Buffer.from(JSON.stringify({ ...says("x"), metadata: Array.from({ length: values }, () => 1) }));
  const order = { operation: "responses", caller: CALLER, bodyBytes: bytes.length } as const;
  // A thread that only counts gives no result; in the main thread the metadata is refused.
  await by.translate({ bytes, singleKeys: [] }, order, new AbortController().signal).catch(() => {});
  expect(faults).toHaveLength(threads);
});

test("a body that never ends is given up, and only blocks its own tenant", async () => {
  const clock = new VirtualClock();
  const by = translator(stuck, { clock });
  const bad = [translate(by, says("1"), "bad"), translate(by, says("2"), "bad")].map((one) =>
    one.catch((error: unknown) => (error instanceof WorkNotDone ? error.why : error)),
  );
  await expect(translate(by, says("3"), "other")).rejects.toMatchObject({ code: "server_error" });
  await clock.advance(30_000);
  expect(await bad[0]).toBe("given_up");
  await until(() => faults.length === 1, "the other tenant was served");
  // If the loop waited for a CPU, heavy users are delayed first.
  await clock.advance(5_000);
  await clock.advance(30_000);
  expect(await bad[1]).toBe("given_up");
});

test("a thread is kept for the next body, unless it had a large one", async () => {
  const clock = new VirtualClock();
  const by = translator(counting, { clock });
  const ask = (size: number) => translate(by, says("x".repeat(size))).catch(() => clock.advance(5_000));
  for (const size of [1, 1, 5 * MEBIBYTE, 1, 1]) await ask(size);
  expect(faults.map(({ error }) => error)).toEqual(["1", "2", "3", "1", "2"]);
});

test("a thread whose heap many short messages enlarged is replaced, too", async () => {
  const clock = new VirtualClock();
  const by = translator(growing(), { clock });
  const ask = (text: string) => translate(by, says(text)).catch(() => clock.advance(5_000));
  for (const text of ["1", "grow", "1", "1"]) await ask(text);
  expect(faults.map(({ error }) => error)).toEqual(["1", "2", "1", "2"]);
});
