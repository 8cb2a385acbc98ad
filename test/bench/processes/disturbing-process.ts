import { setTimeout as sleep } from "node:timers/promises";
import { updateKeyFile } from "../../../gateway/keys/key-file.ts";
import { agentBody } from "../load/agent-body.ts";
import type { Directive } from "./directive.ts";
import type { Disturbance, DisturbingTask } from "./disturbance.ts";

/*
 * What disturbs running streams, a program of its own: it does one thing again and again until it is told to end. Its
 * argument is JSON. Tells its parent how often it was done.
 */

const BIG_BYTES = 20_000_000;
const MANY_MESSAGES = 5_000;
const PAUSE_MS = 500;

const { kind, port, key, keyFile } = JSON.parse(process.argv[2] ?? "") as DisturbingTask;

/** What the engine is to answer. */
const directive: Directive = { events: 4, eventsPerSecond: 0, eventsPerWrite: 4 };
const lastMessage = { role: "user", content: JSON.stringify(directive) };

const bodies: Readonly<Record<Disturbance, () => string | undefined>> = {
  "20 MB body": bigBody,
  "1 MB body of 5,000 messages": manyMessages,
  "one key of 100,000 changed": () => undefined,
};

function bigBody(): string {
  const { messages, ...rest } = JSON.parse(agentBody("chat", BIG_BYTES).toString()) as { messages: readonly object[] };
  return JSON.stringify({ ...rest, messages: [...messages, lastMessage], stream: false });
}

function manyMessages(): string {
  const messages = Array.from({ length: MANY_MESSAGES }, (_, at) => ({
    role: at % 2 === 0 ? "user" : "assistant",
    content: `${at} ${"lorem ipsum ".repeat(14)}`,
  }));
  return JSON.stringify({ model: "svc-qwen", messages: [...messages, lastMessage] });
}

async function send(body: string): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body,
  });
  await response.text();
  if (response.status !== 200) throw new Error(`a body was answered with ${response.status}`);
}

/** Writes the file of keys anew, with another name for the last key. */
async function changeKey(): Promise<void> {
  const change = (set: Parameters<Parameters<typeof updateKeyFile>[2]>[0]) => {
    const last = set.keys.at(-1);
    if (!last) throw new Error("there is no key");
    const changed = { ...last, name: `changed at ${Date.now()}`, revision: last.revision + 1 };
    return { set: { ...set, keys: [...set.keys.slice(0, -1), changed] }, value: undefined };
  };
  await updateKeyFile(keyFile, false, change, new AbortController().signal);
}

let times = 0;
let over = false;
process.once("SIGTERM", () => {
  over = true;
});
process.on("disconnect", () => process.exit());
const body = bodies[kind]();
process.stdout.write("ready {}\n");
while (!over) {
  await (body === undefined ? changeKey() : send(body));
  times += 1;
  await sleep(PAUSE_MS);
}
process.send?.({ times }, () => process.exit());
