import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import type { Script } from "../../support/engine/scripted-backend.ts";
import { blockEnd, delta, finished, started, textAnswer, textStart } from "../../support/events/events.ts";
import { gate } from "../../support/gate.ts";
import { engineOf } from "../../support/gateway/own-services.ts";
import { Fleet } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { sizeOf } from "../../support/size.ts";
import { until } from "../../support/until.ts";

/*
 * F10: requests whose bodies exceed the heap together; and callers that keep their connections while the event loop of
 * the gateway is blocked.
 */

const CHAT = "/v1/chat/completions";
const HEAP_MIB = sizeOf({ quick: 176, promised: 256 });
/** The heap keeps a digest for each message of a request until its answer begins. */
const MESSAGES = 6_000;
/** Concurrent callers; more bodies do not arrive between two checks. */
const CALLERS = 8;
/** Several times the heap together. */
const MOST_REQUESTS = 1_000;
/** Callers do not stop at the first refusal. */
const REFUSALS = 40;

const fleet = new Fleet();

/** Starts a gateway in front of an engine with this script, and waits until it is ready. */
async function service(script: Script, settings: object, through: readonly string[]) {
  const engine = await engineOf(script, { slots: 10_000 });
  const front = await fleet.gateway({ endpoints: [{ address: engine.address }] }, settings, through);
  await becomes(async () => (await fetch(`${front.adminUrl}/ready`)).ok, "the gateway is ready");
  return { engine, front };
}

test("a gateway with a full heap refuses new requests before it dies, finishes the others and recovers", async () => {
  const { passed, open } = gate();
  const through = ["env", `NODE_OPTIONS=--max-old-space-size=${HEAP_MIB}`];
  const timeouts = { perTryIdleTimeoutMs: 600_000, keepAliveIntervalMs: 600_000 };
  const script: Script = async function* () {
    // The request is kept until the first delta, because it may be retried.
    yield [started()];
    await passed;
    yield [textStart(0), delta(0, "to the end"), blockEnd(0), finished()];
  };
  const { engine: node, front } = await service(script, { timeouts }, through);
  const body = (at: number) => ({
    model: "svc-qwen",
    stream: true,
    messages: Array.from({ length: MESSAGES }, (_, turn) => ({
      role: turn % 2 === 0 ? "user" : "assistant",
      content: String(at),
    })),
  });
  const refused: Response[] = [];
  const admitted: Promise<string>[] = [];
  let sent = 0;
  while (refused.length < REFUSALS && sent < MOST_REQUESTS) {
    sent += 1;
    const call = async () => {
      const response = await front.post(CHAT, body(sent));
      if (response.status !== 200) refused.push(response);
      return response.status === 200 ? response.text() : "refused";
    };
    admitted.push(call());
    await until(() => node.backend.requests.length + refused.length > sent - CALLERS, "the others have got somewhere");
  }
  expect(refused.length).toBeGreaterThanOrEqual(REFUSALS);
  expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([503]));
  expect(front.process.running).toBe(true);
  open();
  for (const text of await Promise.all(admitted)) expect(text).toMatch(/to the end|^refused$/);
  const again = async () => {
    const response = await front.post(CHAT, body(0));
    await response.text();
    return response.status === 200;
  };
  await becomes(again, "requests are taken again");
});

/** Milliseconds; two such stalls in a row make a gateway refuse all requests. */
const STALL_MS = 3_200;

/** An event loop that SIGUSR2 stops three times, each until a pipe was opened; overdue timers run between. */
class StallingLoop {
  readonly #pipes: readonly string[];

  constructor() {
    const folder = mkdtempSync(join(tmpdir(), "svc-stall-"));
    fleet.onEnd(() => rmSync(folder, { recursive: true, force: true }));
    this.#pipes = ["first", "second", "third"].map((name) => join(folder, name));
    execFileSync("mkfifo", [...this.#pipes]);
  }

  get through(): readonly string[] {
    // The inner timer is set when the loop has measured its delay, and is due before the next check.
    const code = `import { readFileSync } from "node:fs";
      const stall = ([pipe, ...others]) => {
        readFileSync(pipe);
        if (others.length > 0) setTimeout(() => setTimeout(() => stall(others)));
      };
      process.on("SIGUSR2", () => stall(${JSON.stringify(this.#pipes)}));`;
    return ["env", `NODE_OPTIONS=--import=data:text/javascript,${encodeURIComponent(code)}`];
  }

  async stall(front: GatewayProcess, ms: number, act: () => void): Promise<void> {
    front.process.signal("SIGUSR2");
    for (const pipe of this.#pipes) {
      // Opens when the loop reads.
      const held = await open(pipe, "w");
      if (pipe === this.#pipes.at(-1)) act();
      else await delay(ms);
      await held.close();
    }
  }
}

function keepingCallers({ baseUrl, key }: GatewayProcess, statuses: number[]): readonly (() => Promise<unknown>)[] {
  const noted: typeof fetch = async (...args) => {
    const response = await fetch(...args);
    statuses.push(response.status);
    return response;
  };
  const messages = [{ role: "user" as const, content: "hi" }];
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const text = JSON.stringify({ model: "svc-qwen", messages, stream: true });
  const agent = new Agent({ keepAlive: true });
  const byAgent = () =>
    new Promise<void>((resolve, reject) => {
      const sent = request(`${baseUrl}${CHAT}`, { agent, method: "POST", headers }, (response) => {
        statuses.push(response.statusCode ?? 0);
        response.on("error", reject).on("end", resolve).resume();
      });
      sent.on("error", reject).end(text);
    });
  const openai = new OpenAI({ apiKey: key, baseURL: `${baseUrl}/v1`, fetch: noted });
  const anthropic = new Anthropic({ apiKey: key, baseURL: baseUrl, fetch: noted });
  return [
    async () => (await noted(`${baseUrl}${CHAT}`, { method: "POST", headers, body: text })).text(),
    byAgent,
    () => openai.chat.completions.create({ model: "svc-qwen", messages }),
    () => anthropic.messages.create({ model: "svc-qwen", messages, max_tokens: 64 }),
  ];
}

test("a gateway with a stalled loop answers all kept connections, and the admin page has each answer", async () => {
  const loop = new StallingLoop();
  const { front } = await service(() => [textAnswer("hi")], {}, loop.through);
  const statuses: number[] = [];
  const callers = keepingCallers(front, statuses);
  for (const call of callers) await call();
  const during: Promise<unknown>[] = [];
  await loop.stall(front, STALL_MS, () => during.push(...callers.map((call) => call())));
  await Promise.all(during);
  for (const call of callers) await call();
  const failed = statuses.filter((status) => status >= 500).length;
  expect(failed).toBeGreaterThanOrEqual(callers.length);
  const counted = async () => {
    const { total } = (await (await fetch(`${front.adminUrl}/fleet`)).json()) as {
      total: { requests: number; errors: number };
    };
    return { requests: total.requests, errors: total.errors };
  };
  await becomes(async () => (await counted()).requests >= statuses.length, "the page has all requests");
  expect(await counted()).toEqual({ requests: statuses.length, errors: failed });
});
