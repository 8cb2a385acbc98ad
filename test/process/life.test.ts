import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { code, page, table } from "../../deploy/docs/markdown.ts";
import { CallRecorder, type RecordedCall } from "../support/call-recorder.ts";
import { type WireCall, WireNode } from "../support/engine/wire-node.ts";
import { blockEnd, delta, finished, started, textStart } from "../support/events/events.ts";
import { keyWith } from "../support/gateway/limited-key.ts";
import { type RunningGateway, startGateway } from "../support/gateway/start-gateway.ts";
import { MINIMAL } from "../support/requests/minimal-bodies.ts";
import { until } from "../support/until.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

/*
 * The map of a request is a recording: the gateway answers, and its functions are written down in the order of their
 * first calls. `npm run docs` writes the page from it. Here it fails when the code takes another way.
 */

const ROOT = resolve(import.meta.dirname, "../..");
const PATH = "/v1/chat/completions";
const CHAT = { ...MINIMAL[PATH], stream: true };
const MODEL = "svc-qwen";
/** The requests before the first recorded one: what happens once has happened. */
const WARM = 10;
/** The time in which timers of the gateway expire that may do so while an attempt waits to be repeated. */
const IDLE_MS = 250;
/** The number of steps of the README that must name a file on the way; the last ones are of what may happen to it. */
const LEAST_STEPS = 9;
/** The ticks of the event loop in which the end of a request is over. */
const TICKS = 10;

const begin = (call: WireCall) => call.send(started(), textStart(0), delta(0, "Hello"));

function end(call: WireCall): void {
  call.send(blockEnd(0), finished(undefined, { outputTokens: 2 }));
  call.end(status.OK);
}

function answered(call: WireCall): void {
  begin(call);
  call.send(delta(0, " there"));
  end(call);
}

const failed = (call: WireCall) => call.end(status.UNAVAILABLE, "ENGINE_DOWN");

type Lives = Readonly<Record<"request" | "delta" | "retried" | "limited", readonly RecordedCall[]>>;

const closing: (() => void | Promise<void>)[] = [];

/** Records a gateway before two nodes, as it routes by default. */
async function recorded(): Promise<Lives> {
  /** How the next calls are answered, whichever node gets them; all others are answered whole. */
  const plays: ((call: WireCall) => void)[] = [];
  const play = (call: WireCall) => (plays.shift() ?? answered)(call);
  const nodes = [await WireNode.start({ models: [MODEL], play }), await WireNode.start({ models: [MODEL], play })];
  const clock = new VirtualClock();
  const clusters = [{ model: MODEL, endpoints: nodes.map(({ address }) => ({ address })) }];
  const gateway = await startGateway(
    nodes.map(({ address }) => address),
    { clusters },
    {},
    clock,
  );
  closing.push(gateway.stop, ...nodes.map((node) => () => node.stop()));
  const recorder = await CallRecorder.start((file) => file.startsWith("gateway/"));
  closing.push(() => recorder.close());
  const answer = () => answerOf(gateway);
  for (let at = 0; at < WARM; at += 1) await answer();
  const request = await recorder.record(answer);
  const idle = await recorder.record(() => clock.advance(IDLE_MS));
  const calls = () => nodes.reduce((sum, node) => sum + node.calls.length, 0);
  const retried = await recorder.record(async () => {
    plays.push(failed);
    const both = calls() + 2;
    const answering = answer();
    while (calls() < both) {
      await clock.advance(1);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await answering;
  }, answer);
  const limited = await recorder.record(...(await refusals(gateway)));
  const streamed = new Promise<WireCall>((resolve) => {
    plays.push((call) => {
      begin(call);
      resolve(call);
    });
  });
  const deltas = await recorder.record(await deltasOf(gateway, streamed));
  const others = new Set([...request, ...idle].map(keyOf));
  return { request, delta: deltas, retried: retried.filter((call) => !others.has(keyOf(call))), limited };
}

const keyOf = ({ file, name }: RecordedCall) => `${file} ${name}`;

async function answerOf(gateway: RunningGateway): Promise<void> {
  const lines = gateway.log.length;
  const text = await (await gateway.post(PATH, CHAT)).text();
  if (!text.includes(" there")) throw new Error(`no answer: ${text}`);
  await written(gateway, lines);
}

/** Resolves when the log line of a request is written, which ends it. */
async function written(gateway: RunningGateway, lines: number): Promise<void> {
  await until(() => gateway.log.length > lines, "the request has its log line");
  for (let at = 0; at < TICKS; at += 1) await new Promise((resolve) => setImmediate(resolve));
}

type Run = () => Promise<void>;

/** A request of a key that has had its one request of the minute, and one that uses that up. */
async function refusals(gateway: RunningGateway): Promise<[Run, Run]> {
  const headers = await keyWith(gateway, { rpm: 1 });
  const ask = async () => {
    const lines = gateway.log.length;
    const response = await gateway.post(PATH, CHAT, headers);
    await response.text();
    await written(gateway, lines);
    return response.status;
  };
  const refused = async () => {
    expect(await ask()).toBe(429);
  };
  return [
    refused,
    async () => {
      while ((await ask()) !== 429);
    },
  ];
}

/** A further delta of the answer to the next request, which `streamed` begins. */
async function deltasOf(gateway: RunningGateway, streamed: Promise<WireCall>): Promise<Run> {
  const { body } = await gateway.post(PATH, CHAT);
  const reader = body?.getReader();
  const call = await streamed;
  const next = async () => {
    const read = await reader?.read();
    if (read === undefined || read.done) throw new Error("the answer has ended");
  };
  await next();
  return async () => {
    call.send(delta(0, " again"));
    await next();
  };
}

let lives: Lives;

afterAll(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

beforeAll(async () => {
  lives = await recorded();
});

/** Returns the functions of each file: files and functions in the order of their first calls. */
function byFile(calls: readonly RecordedCall[]): ReadonlyMap<string, ReadonlySet<string>> {
  const files = new Map<string, Set<string>>();
  for (const { file, name } of calls) {
    const path = file.replace(/^gateway\//, "");
    files.set(path, (files.get(path) ?? new Set()).add(name));
  }
  return files;
}

function mapOf(calls: readonly RecordedCall[]): string {
  const files = [...byFile(calls)];
  const count = files.reduce((sum, [, names]) => sum + names.size, 0);
  const rows = files.map(([file, names]) => [code(file), [...names].join(", ")]);
  return `${count} functions in ${files.length} files.\n\n${table(["file", "functions"], rows)}`;
}

test("the map is that of a recorded request; `npm run docs` writes it", async () => {
  const text = page("Life of a request, recorded", "the calls of a running gateway, `test/process/life.test.ts`", [
    "Which functions of the gateway run, file by file, in the order of their first calls. Functions without a name, other\nthreads, timers and libraries are left out. [The README](../README.md#life-of-a-request) has the reasons.",
    "## A request\n\nA streamed chat of two words.",
    mapOf(lives.request),
    "## A delta\n\nOne more delta of a running answer.",
    mapOf(lives.delta),
    "## A failed attempt\n\nWhat a request does beside that where its first attempt finds an engine that is going down.",
    mapOf(lives.retried),
    "## A limit\n\nA request beyond the requests per minute of its key.",
    mapOf(lives.limited),
  ]);
  await expect(text).toMatchFileSnapshot(join(ROOT, "gateway/docs/life.md"));
});

/** The files that each step of the README names, of those that the recorded request passes. */
function steps(): readonly (readonly string[])[] {
  const passed = [...byFile(lives.request).keys()];
  const readme = readFileSync(join(ROOT, "gateway/README.md"), "utf8");
  return [...readme.matchAll(/^\d+\. .*(?:\n {3}.*)*/gm)].map(([text]) =>
    [...text.matchAll(/`([\w/-]+\.ts)`/g)].flatMap(([, name = ""]) =>
      passed.filter((file) => file === name || file.endsWith(`/${name}`)),
    ),
  );
}

test("the steps of the README are those of the recorded request, in its order", () => {
  const passed = [...byFile(lives.request).keys()];
  const entered = steps().flatMap(([first]) => (first === undefined ? [] : [passed.indexOf(first)]));
  expect(entered.length).toBeGreaterThanOrEqual(LEAST_STEPS);
  expect(entered).toEqual(entered.toSorted((one, other) => one - other));
});
