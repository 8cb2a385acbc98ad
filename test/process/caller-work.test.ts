import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../deploy/runtime/time/clock.ts";
import { GrammarCache } from "../../engine/backends/grammar-cache.ts";
import { CallerWork, type WorkEnd, WorkGivenUp } from "../../engine/caller-work/caller-work.ts";
import type { GrammarInput } from "../../engine/caller-work/grammar-input.ts";
import { packConversation } from "../../engine/conversation/prompt-renderer.ts";
import { user } from "../support/engine/canonical.ts";
import { never } from "../support/engine/demo-engine.ts";
import { HERMES_MARKERS } from "../support/engine/hermes-markers.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

const ROOT = join(import.meta.dirname, "../..");
/** Inside the project, so that the program resolves its libraries. */
const BUILT = join(ROOT, "node_modules/.cache", `caller-work-${process.pid}`);

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
const order = (tenant = "t", signal = never()) => ({ tenant, signal, isolation: tenant });

/** Programs that represent one that a schema has crashed. */
const program = (body: string) =>
  new URL(
    `data:text/javascript,import { parentPort } from "node:worker_threads"; parentPort.on("message", ({ input }) => { ${body}; parentPort.postMessage({ output: "fine" }); });`,
  );

let work: CallerWork;
afterEach(() => work.close());
const grammar = (of: GrammarInput, tenant?: string, signal?: AbortSignal) =>
  work.run("grammar", of, order(tenant, signal));

describe("on threads, with the built program", () => {
  beforeAll(() => {
    const options =
      "--module nodenext --target es2023 --types node --strict --skipLibCheck --rewriteRelativeImportExtensions";
    const files = ["engine/caller-work/work-thread.ts", "--rootDir", ".", "--outDir", BUILT];
    execFileSync(join(ROOT, "node_modules/.bin/tsc"), ["--ignoreConfig", ...options.split(" "), ...files], {
      cwd: ROOT,
    });
    writeFileSync(join(BUILT, "package.json"), '{"type":"module"}');
  }, 60_000);
  afterAll(() => rmSync(BUILT, { recursive: true, force: true }));

  test("schemas return as grammars or refusals, and answers are checked", async () => {
    const built = pathToFileURL(join(BUILT, "engine/caller-work/work-thread.js"));
    work = new CallerWork({ clock: systemClock, program: built });
    const text = { part: "answer" as const, strict: false, schema: '{"type":"null"}', text: "1" };
    const template = {
      ...{ source: "{% for m in messages %}{{ m.content }}{% endfor %}", bosToken: "", eosToken: "" },
      ...{ controlTokens: [], maxUnits: 100, cutsAtWords: true, reasoningOpen: undefined },
    };
    const conversation = await packConversation(
      { messages: [user("Hi")], tools: [], reasoning: false },
      async () => {},
    );
    expect(await work.run("render", { format: template, conversation }, order())).toMatchObject({ text: "Hi" });
    const [good, bad, unenforced, checked] = await Promise.allSettled([
      grammar(input({ enum: ["yes", "no"] })),
      grammar(input({ properties: { a: { type: "x" } } })),
      grammar(input({ items: { format: "regex" } })),
      work.run("check", [text], order()),
    ]);
    expect(good).toMatchObject({ value: { text: expect.stringContaining("yes"), gaveUp: false } });
    const field = "output_constraint.json_schema.schema_json";
    expect(bad).toMatchObject({
      reason: { reason: "INVALID_SCHEMA", facts: { field, pointer: "/properties/a/type" } },
    });
    expect(unenforced).toMatchObject({
      reason: { reason: "INVALID_SCHEMA", facts: { field, pointer: "/items/format" } },
    });
    expect(checked).toMatchObject({ value: { mismatches: [{ part: "answer", strict: false }], unchecked: 0 } });
  }, 60_000);
});

test("waiting callers get heartbeats while threads advance, and none from stuck threads", async () => {
  const clock = new VirtualClock();
  work = new CallerWork({ clock, threads: 1, program: program("if (input.mustCall) for (;;);") });
  const moves = { first: 0, second: 0, third: 0 };
  const noted = (who: keyof typeof moves, of: GrammarInput, tenant: string) =>
    work.run("grammar", of, { ...order(tenant), onMove: () => (moves[who] += 1) });
  const endless = input({}, { mustCall: true });
  const all = Promise.allSettled([
    noted("first", endless, "a"),
    noted("second", endless, "b"),
    noted("third", input({}), "a"),
  ]);
  expect(moves).toEqual({ first: 1, second: 1, third: 1 });
  await clock.advance(14_999);
  expect(moves).toEqual({ first: 1, second: 1, third: 1 });
  await clock.advance(1);
  expect(moves).toEqual({ first: 1, second: 2, third: 2 });
  await clock.advance(15_000);
  await all;
  expect(moves).toEqual({ first: 1, second: 2, third: 3 });
  expect(work.moves).toBe(3);
});

test("all threads are started before the first job", async () => {
  const channel = new BroadcastChannel("caller-work-started");
  let started = 0;
  channel.onmessage = () => {
    started += 1;
  };
  const source = `data:text/javascript,import { parentPort } from "node:worker_threads"; parentPort.on("message", () => {}); new BroadcastChannel("caller-work-started").postMessage(0);`;
  work = new CallerWork({ clock: systemClock, threads: 3, program: new URL(source) });
  await expect.poll(() => started, { timeout: 20_000 }).toBe(3);
  channel.close();
}, 30_000);

describe("a fault of this program in a job", () => {
  const fault = { error: "TypeError", at: [expect.stringContaining("at ")] };
  const broken = { tools: null } as unknown as GrammarInput;

  test.each(["on a thread", "where no thread can be run"])(
    "a job is given up, and reported once as a fault: %s",
    async (where) => {
      const ends: WorkEnd[] = [];
      const replies = program(
        "parentPort.postMessage({ fault: { error: 'TypeError', at: ['at schema.ts:1'] } }); return",
      );
      work = new CallerWork({
        clock: new VirtualClock(),
        threads: 1,
        program: where === "on a thread" ? replies : undefined,
        onEnd: (end) => ends.push(end),
      });
      await expect(grammar(broken)).rejects.toThrow(WorkGivenUp);
      expect(ends).toMatchObject([{ kind: "grammar", outcome: "failed", fault: { error: fault.error } }]);
      expect(ends[0]?.fault?.at[0]).toEqual(fault.at[0]);
    },
  );

  test("a fault of this program in a job is also reported for the parsing of an output", () => {
    const ends: WorkEnd[] = [];
    work = new CallerWork({ clock: systemClock, program: undefined, onEnd: (end) => ends.push(end) });
    work.parseFailed(new TypeError("what the caller sent"));
    expect(ends).toMatchObject([{ kind: "parse", outcome: "failed", fault: { error: "TypeError" } }]);
    expect(JSON.stringify(ends)).not.toContain("what the caller sent");
  });
});

/** Accepts every text, as an engine would. */
const compiled = async (grammar: string) => ({ grammar });

describe("a schema whose compilation was given up", () => {
  const faulty =
    "if (!input.onlyPromised) { parentPort.postMessage({ fault: { error: 'TypeError', at: [] } }); return }";
  const unread = program(
    `${faulty} parentPort.postMessage({ output: { text: "root ::= free", gaveUp: true } }); return`,
  );
  const cached = (strict: boolean) => {
    work = new CallerWork({ clock: new VirtualClock(), threads: 1, program: unread });
    const kind = { $case: "jsonSchema" as const, value: { name: "x", schemaJson: "{}", strict } };
    return new GrammarCache(compiled, work, new VirtualClock()).get(input({}, { constraint: { kind } }), order());
  };

  test("a schema whose compilation was given up leaves an answer that is not strict free, and is refused if it is strict", async () => {
    expect(await cached(false)).toEqual({ grammar: "root ::= free" });
    await work.close();
    await expect(cached(true)).rejects.toMatchObject({ reason: "INVALID_SCHEMA" });
  });
});

describe("a schema that is sent again", () => {
  const clock = new VirtualClock();
  let pieces: number;

  function counted(): GrammarCache<{ grammar: string }> {
    work = new CallerWork({ clock: systemClock, program: undefined });
    pieces = 0;
    const run: CallerWork["run"] = (kind, of, by) => {
      pieces += 1;
      return work.run(kind, of, by);
    };
    return new GrammarCache(compiled, { run }, clock);
  }

  const secret = input({ enum: ["a customer"] });
  const refused = input({ type: "x" });
  const isRefused = (asked: Promise<unknown>) => expect(asked).rejects.toMatchObject({ reason: "INVALID_SCHEMA" });

  test("a schema that is sent again costs no work for the same tenant and salt, also after a refusal, and all of it otherwise", async () => {
    const cache = counted();
    const first = await cache.get(secret, order());
    expect(await cache.get(secret, order())).toBe(first);
    await isRefused(cache.get(refused, order()));
    await isRefused(cache.get(refused, order()));
    expect(pieces).toBe(2);
    expect(await cache.get(secret, order("other tenant"))).not.toBe(first);
    expect(await cache.get(secret, { ...order(), isolation: "other salt" })).not.toBe(first);
    await isRefused(cache.get(refused, order("other tenant")));
    expect(pieces).toBe(5);
  });

  test("a schema that is sent again costs its work again for the rest of an answer, whose text is not kept", async () => {
    const cache = counted();
    const rest = { ...secret, behind: '"a c' };
    await cache.get(rest, order());
    await cache.get(rest, order());
    expect(pieces).toBe(2);
    expect(cache.bytes).toBe(0);
  });

  test("a schema that is sent again is dropped after five to ten idle minutes, without a lookup", async () => {
    const cache = counted();
    const held = new WeakRef((await cache.get(secret, order())) ?? {});
    await isRefused(cache.get(refused, order()));
    await clock.advance(9 * 60_000);
    await cache.get(secret, order());
    await clock.advance(5 * 60_000);
    expect(cache.bytes).toBeGreaterThan(0);
    await isRefused(cache.get(refused, order()));
    expect(pieces).toBe(3);
    await clock.advance(5 * 60_000);
    expect(cache.bytes).toBe(0);
    setFlagsFromString("--expose-gc");
    const collect: unknown = runInNewContext("gc");
    if (typeof collect !== "function") throw new Error("nothing can be collected");
    collect();
    expect(held.deref()).toBeUndefined();
  });
});

test("every job reports its outcome", async () => {
  const ends: string[] = [];
  work = new CallerWork({
    clock: systemClock,
    program: undefined,
    onEnd: ({ kind, outcome }) => ends.push(`${kind} ${outcome}`),
  });
  const text = { part: "answer" as const, strict: false, text: "1" };
  await grammar(input({ enum: ["yes"] }));
  await expect(grammar(input({ type: "x" }))).rejects.toMatchObject({ reason: "INVALID_SCHEMA" });
  await work.run("check", [{ ...text, schema: "{}" }], order());
  await work.run("check", [{ ...text, schema: "no schema" }], order());
  expect(ends).toEqual(["grammar whole", "grammar refused", "check whole", "check partly"]);
});

test.each([
  ["takes too long", "for (;;);", 15_000],
  ["takes too much memory", "for (const all = []; ; ) all.push(new Array(1e6).fill(input))", 0],
])(
  "a job that %s is given up, and later ones run",
  async (_what, body, advanceMs) => {
    const clock = new VirtualClock();
    work = new CallerWork({ clock, threads: 1, program: program(`if (input.mustCall) ${body}`) });
    const outcome = Promise.allSettled([grammar(input({}, { mustCall: true })), grammar(input({}))]);
    await clock.advance(advanceMs);
    expect(await outcome).toMatchObject([{ reason: expect.any(WorkGivenUp) }, { value: "fine" }]);
  },
  60_000,
);

test("a crashed thread is replaced, during a job and between jobs", async () => {
  const dies = "if (input.mustCall) process.exit(1); if (input.maxCalls) setImmediate(() => process.exit(1))";
  work = new CallerWork({ clock: new VirtualClock(), threads: 1, program: program(dies) });
  await expect(grammar(input({}, { mustCall: true }))).rejects.toThrow(WorkGivenUp);
  expect(await grammar(input({}, { maxCalls: 1 }))).toBe("fine");
  const again = () => grammar(input({})).catch(() => "died while it was asked");
  await expect.poll(again).toBe("fine");
});

test("nothing runs for callers who left before or during their wait, or after the end", async () => {
  work = new CallerWork({ clock: systemClock, threads: 1, program: program("if (input.mustCall) for (;;);") });
  const first = grammar(input({}, { mustCall: true })).catch((error: unknown) => error);
  const leaving = new AbortController();
  const second = grammar(input({}), "t", leaving.signal);
  expect(work.waiting).toBe(1);
  leaving.abort();
  await expect(second).rejects.toMatchObject({ reason: "CANCELLED" });
  await expect(grammar(input({}), "t", AbortSignal.abort())).rejects.toMatchObject({ reason: "CANCELLED" });
  expect(work.waiting).toBe(0);
  const last = grammar(input({})).catch((error: unknown) => error);
  await work.close();
  for (const failed of [first, last, grammar(input({})).catch((error: unknown) => error)])
    expect(await failed).toMatchObject({ reason: "ENGINE_DOWN" });
});

describe("between tenants", () => {
  const endless = input({}, { mustCall: true });

  test("one never has all threads, so that another's job runs at once", async () => {
    work = new CallerWork({ clock: systemClock, threads: 2, program: program("if (input.mustCall) for (;;);") });
    const hostile = Promise.allSettled(Array.from({ length: 20 }, () => grammar(endless, "hostile")));
    expect(await Promise.all([1, 2, 3].map(() => grammar(input({}), "honest")))).toEqual(["fine", "fine", "fine"]);
    await work.close();
    await hostile;
  });

  test("a tenant with too many waiting jobs is refused, and no other", async () => {
    work = new CallerWork({ clock: systemClock, threads: 2, program: program("if (input.mustCall) for (;;);") });
    const hostile = Array.from({ length: 40 }, () => grammar(endless, "hostile").catch((error: unknown) => error));
    await expect(Promise.race(hostile)).resolves.toMatchObject({ reason: "QUEUE_FULL" });
    expect(await grammar(input({}), "honest")).toBe("fine");
    await work.close();
    await Promise.all(hostile);
  });
});
