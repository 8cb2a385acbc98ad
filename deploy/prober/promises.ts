import { run } from "../../gateway/keys/cli/main.ts";
import { idOfKey } from "../../gateway/keys/key-format.ts";
import { sleep } from "../runtime/time/abort.ts";
import type { Clock } from "../runtime/time/clock.ts";
import type { ProberConfig } from "./config.ts";
import { type Edge, readKey, Unproven } from "./edge.ts";
import type { Promised } from "./prober.ts";

/** How often each promise is proven, and in what time it has to be, in minutes. README.md says what each means. */
export const PERIODS = {
  chat: { every: 1, within: 5 },
  messages: { every: 1, within: 5 },
  responses: { every: 1, within: 5 },
  certificate: { every: 1, within: 5 },
  limit: { every: 60, within: 90 },
  revocation: { every: 60, within: 90 },
  // Alertmanager repeats the watchdog every hour.
  alerts: { every: 1, within: 150 },
  continuation: { every: 24 * 60, within: 26 * 60 },
} as const satisfies Readonly<Record<string, { readonly every: number; readonly within: number }>>;

export type PromiseName = keyof typeof PERIODS;

const MINUTE_MS = 60_000;

export type ProofDeps = { readonly edge: Edge; readonly clock: Clock };

type Prove = Promised["prove"];

/** Returns the promises that the configuration covers. */
export function promisesOf(config: ProberConfig, deps: ProofDeps): readonly Promised[] {
  const proofs: Readonly<Record<PromiseName, Prove | undefined>> = {
    chat: answersIn("chat", config, deps),
    messages: answersIn("messages", config, deps),
    responses: answersIn("responses", config, deps),
    certificate: deps.edge.hasTls ? certificate(config, deps) : undefined,
    limit: config.limit && limit(config.limit, config, deps),
    revocation: config.revocation && revocation(config.revocation, deps),
    alerts: config.alertmanagerUrl === undefined ? undefined : alerts(config.alertmanagerUrl),
    continuation: config.continuation ? continuation(config, deps) : undefined,
  };
  return (Object.keys(PERIODS) as PromiseName[]).flatMap((name) => {
    const prove = proofs[name];
    const { every, within } = PERIODS[name];
    return prove ? [{ name, everyMs: every * MINUTE_MS, withinMs: within * MINUTE_MS, prove }] : [];
  });
}

const MESSAGES = [{ role: "user", content: "Count from 1 to 12." }];

type Whole = Readonly<Record<string, unknown>>;

/** Each format: its path, a request for one token, and what a whole answer ends with. */
const FORMATS = {
  chat: {
    path: "/v1/chat/completions",
    body: { messages: MESSAGES, max_tokens: 1 },
    isWhole: ({ choices }: Whole) => Array.isArray(choices) && typeof choices[0]?.finish_reason === "string",
    ends: /"finish_reason":"\w+"[\s\S]*\ndata: \[DONE\]\s*$/,
  },
  messages: {
    path: "/v1/messages",
    body: { messages: MESSAGES, max_tokens: 1 },
    isWhole: ({ stop_reason: reason }: Whole) => typeof reason === "string",
    ends: /\nevent: message_stop\ndata: .*\s*$/,
  },
  responses: {
    path: "/v1/responses",
    body: { input: "Count from 1 to 12.", max_output_tokens: 1 },
    isWhole: ({ status }: Whole) => status === "completed" || status === "incomplete",
    ends: /\nevent: response\.(?:completed|incomplete)\ndata: .*\s*$/,
  },
} as const;

function assertStatus(status: number, wanted = 200): void {
  if (status !== wanted) throw new Unproven(`status_${status}`);
}

/** An answer of one token comes whole, streamed and in one piece. */
function answersIn(format: keyof typeof FORMATS, { model, keyFile }: ProberConfig, { edge }: ProofDeps): Prove {
  const { path, body, isWhole, ends } = FORMATS[format];
  return async (signal) => {
    const key = readKey(keyFile);
    for (const stream of [true, false]) {
      const { status, text } = await edge.ask(path, { key, body: { ...body, model, stream } }, signal);
      assertStatus(status);
      if (stream ? !ends.test(text) : !isWhole(parsed(text))) throw new Unproven(stream ? "no_end" : "no_answer");
    }
    return true;
  };
}

function parsed(text: string): Whole {
  try {
    return Object(JSON.parse(text));
  } catch {
    throw new Unproven("no_json");
  }
}

/** The edge shows a certificate that callers accept now: Node checks its name, its time and its authority. */
function certificate({ keyFile }: ProberConfig, { edge }: ProofDeps): Prove {
  return async (signal) => {
    await edge.ask("/v1/models", { key: readKey(keyFile) }, signal);
    return true;
  };
}

/** Of twice as many requests at once as the key may make, exactly its limit passes, whichever gateway takes them. */
function limit({ keyFile, rpm }: NonNullable<ProberConfig["limit"]>, { model }: ProberConfig, deps: ProofDeps): Prove {
  const { path, body } = FORMATS.chat;
  return async (signal) => {
    const key = readKey(keyFile);
    const beganMs = deps.clock.nowMs();
    const asked = Array.from({ length: 2 * rpm }, () => deps.edge.ask(path, { key, body: { ...body, model } }, signal));
    // All end before the next proof, also where one fails.
    const replies = await Promise.allSettled(asked);
    const statuses = replies.map((reply) => {
      if (reply.status === "rejected") throw reply.reason;
      return reply.value.status;
    });
    const odd = statuses.find((status) => status !== 200 && status !== 429);
    if (odd !== undefined) throw new Unproven(`status_${odd}`);
    const passed = statuses.filter((status) => status === 200).length;
    // What a minute's limit regains meanwhile.
    const regained = Math.floor(((deps.clock.nowMs() - beganMs) / MINUTE_MS) * rpm);
    if (passed < rpm || passed > rpm + regained) throw new Unproven(`passed_${passed}_of_${rpm}`);
    return true;
  };
}

/** Requests in a row that have to have the same reply: those of all gateways, by all chance. */
const LOOKS = 10;
const LOOK_AGAIN_MS = 200;
/** Most looks with another reply: a change takes effect within a second; the rest is for a busy machine. */
const MOST_ODD = 25;

/** A disabled key opens the service at no gateway any more. It stays disabled until the next proof. */
function revocation(
  { keyFile, gatewayConfig }: NonNullable<ProberConfig["revocation"]>,
  { edge, clock }: ProofDeps,
): Prove {
  const known = async (wanted: number, key: string, signal: AbortSignal) => {
    for (let alike = 0, odd = 0; alike < LOOKS; ) {
      const { status } = await edge.ask("/v1/models", { key }, signal);
      if (status === wanted) {
        alike += 1;
        continue;
      }
      alike = 0;
      odd += 1;
      if (odd > MOST_ODD) assertStatus(status, wanted);
      await sleep(clock, LOOK_AGAIN_MS, signal);
    }
  };
  return async (signal) => {
    const key = readKey(keyFile);
    await changeKey("enable", key, gatewayConfig);
    await known(200, key, signal);
    await changeKey("disable", key, gatewayConfig);
    await known(401, key, signal);
    return true;
  };
}

/** Changes a key by the command line of keys. What that prints names keys, and is dropped. */
async function changeKey(command: "enable" | "disable", key: string, gatewayConfig: string): Promise<void> {
  const id = idOfKey(key);
  if (id === undefined) throw new Unproven("key_malformed");
  const io = { stdin: process.stdin, out: () => {}, err: () => {}, env: process.env, nowMs: Date.now };
  const code = await run(["--config", gatewayConfig, command, id], io).catch(() => "failed");
  if (code !== 0) throw new Unproven(`keys_${command}_${code}`);
}

/** The tokens of an answer that loses its engine after its first ones. */
const TOKENS = 32;

/** An answer whose engine is lost on order is continued by another one. */
function continuation({ model, keyFile }: ProberConfig, { edge }: ProofDeps): Prove {
  const { path, ends } = FORMATS.chat;
  return async (signal) => {
    const body = { messages: MESSAGES, model, stream: true, min_tokens: TOKENS, max_tokens: TOKENS };
    const headers = { "x-svc-lose-engine": "1" };
    const { status, text } = await edge.ask(path, { key: readKey(keyFile), body, headers }, signal);
    assertStatus(status);
    if (!ends.test(text)) throw new Unproven("broken_off");
    return true;
  };
}

/** Alertmanager has had another call accepted by a receiver since the last look. */
function alerts(url: string): Prove {
  let before: number | undefined;
  return async (signal) => {
    const text = await fetch(new URL("/metrics", url), { signal })
      .then((reply) => (reply.ok ? reply.text() : ""))
      .catch(() => "");
    if (text === "") throw new Unproven("no_alertmanager");
    const sum = (name: string) => [...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, "gm"))].reduce(add, 0);
    const calls = sum("alertmanager_notification_requests_total");
    const accepted = calls - sum("alertmanager_notification_requests_failed_total");
    const last = before;
    before = accepted;
    return last !== undefined && accepted > last;
  };
}

const add = (sum: number, [, value]: RegExpExecArray) => sum + Number(value);
