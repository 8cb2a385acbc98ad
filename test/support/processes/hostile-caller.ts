import { setMaxListeners } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { ANSWER_PATHS, type AnswerPath, bodyFor } from "../http/answer-check.ts";
import { HOSTILE_SHAPES } from "../schemas/hostile-schema.ts";
import { SeededRandom } from "../seeded-random.ts";

/*
 * A caller with a valid key that tries to block the service: small but expensive schemas, bodies of the largest size,
 * prompts of very many messages, connections without a request, cancelled answers.
 */

export type Victim = {
  readonly port: number;
  readonly key: string;
};

/** Concurrent attacks of each kind; 0 disables a kind. */
export type Hostility = {
  readonly schemas: number;
  readonly bodies: number;
  readonly bodyBytes: number;
  /** Requests whose prompt is expensive to render; half of them are only counted. */
  readonly prompts: number;
  readonly promptMessages: number;
  readonly connections: number;
  /** Requests that are cancelled as soon as they are answered. */
  readonly leavers: number;
};

/** Statuses by kind of attack; 0 is a broken connection. */
export type HostileTally = Readonly<Record<string, number>>;

/** Milliseconds before the same attack is repeated: retry delays are ignored. */
const AGAIN_MS = 20;
/** Milliseconds between two writes on a held connection. */
const DRIP_MS = 2_000;

type Json = Readonly<Record<string, unknown>>;

/** Shapes of small but expensive schemas; the first one is invalid. */
const SHAPES = [() => ({ type: [{ toString: 1 }] }), ...Object.values(HOSTILE_SHAPES)] as const;

/** Attacks until the signal is aborted; resolves to the tally. Never rejects. */
export async function attack(
  victim: Victim,
  hostility: Hostility,
  seed: number,
  signal: AbortSignal,
): Promise<HostileTally> {
  const caller = new HostileCaller(victim, seed, signal);
  const { schemas, bodies, bodyBytes, prompts, promptMessages, connections, leavers } = hostility;
  const large =
    bodies > 0 ? Buffer.from(JSON.stringify(bodyFor("/v1/chat/completions", "a".repeat(bodyBytes)))) : undefined;
  await Promise.all([
    ...many(schemas, (index) => caller.again("schema", () => caller.askWithSchema(index))),
    ...many(bodies, () => caller.again("body", () => caller.send("/v1/chat/completions", large ?? Buffer.alloc(0)))),
    ...many(prompts, (index) => caller.again("prompt", () => caller.askLong(index, promptMessages))),
    ...many(leavers, (index) => caller.again("leaver", () => caller.leave(index))),
    ...many(connections, (index) => caller.holdConnection(index)),
  ]);
  return caller.tally;
}

function many(count: number, make: (index: number) => Promise<void>): Promise<void>[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

class HostileCaller {
  readonly #victim: Victim;
  readonly #signal: AbortSignal;
  readonly #chance: SeededRandom;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #tally: Record<string, number> = {};
  #requests = 0;

  constructor(victim: Victim, seed: number, signal: AbortSignal) {
    this.#victim = victim;
    this.#signal = signal;
    this.#chance = new SeededRandom(seed);
    // Every request and connection listens to it.
    setMaxListeners(0, signal);
    signal.addEventListener("abort", () => this.#agent.destroy(), { once: true });
  }

  get tally(): HostileTally {
    return this.#tally;
  }

  async again(name: string, once: () => Promise<number>): Promise<void> {
    while (!this.#signal.aborted) {
      const status = await once();
      if (this.#signal.aborted) return;
      const way = `${name} ${status}`;
      this.#tally[way] = (this.#tally[way] ?? 0) + 1;
      await sleep(AGAIN_MS, undefined, { signal: this.#signal }).catch(() => {});
    }
  }

  /** Requests tool calls, or an answer, with an expensive schema. Schemas differ slightly, so that none is cached. */
  askWithSchema(index: number): Promise<number> {
    this.#requests += 1;
    const shape = this.#chance.pick(SHAPES);
    const schema = { ...shape(this.#chance, 2 + this.#chance.below(60)), title: `t${this.#requests}` };
    const path = ANSWER_PATHS[index % ANSWER_PATHS.length] ?? "/v1/messages";
    const strict = this.#chance.below(3) === 0;
    return this.send(path, bodyFor(path, "call f with a=1", { ...toolsOf(path, schema, strict), stream: true }));
  }

  askLong(index: number, messages: number): Promise<number> {
    const turns = Array.from({ length: messages }, (_, at) => ({
      role: at % 2 === 0 ? "user" : "assistant",
      content: String.fromCharCode(97 + ((at + index) % 26)),
    }));
    const body = { model: "svc-qwen", max_tokens: 16, messages: turns };
    return index % 2 === 0
      ? this.send("/v1/messages/count_tokens", { model: "svc-qwen", messages: turns })
      : this.send("/v1/messages", body);
  }

  leave(index: number): Promise<number> {
    const path = ANSWER_PATHS[index % ANSWER_PATHS.length] ?? "/v1/messages";
    return this.send(path, bodyFor(path, `leaver ${index}`, { stream: true }), true);
  }

  /** Sends a body and reads the answer; resolves to its status, or 0 without one. */
  send(path: string, body: Json | Buffer | object, leave = false): Promise<number> {
    const bytes = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
    const { port, key } = this.#victim;
    return new Promise((resolve) => {
      const headers = {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        "content-length": bytes.length,
      };
      const sent = request(
        { host: "127.0.0.1", port, path, method: "POST", headers, agent: this.#agent, signal: this.#signal },
        (response: IncomingMessage) => {
          response.on("error", () => {});
          response.on("close", () => resolve(response.statusCode ?? 0));
          if (leave) sent.destroy();
          else response.resume();
        },
      );
      sent.on("error", () => resolve(0));
      sent.end(bytes);
    });
  }

  /** Holds a connection: without data, within a head, or within a body. Reopens it when it is closed. */
  async holdConnection(index: number): Promise<void> {
    while (!this.#signal.aborted) {
      const socket = connect({ port: this.#victim.port, host: "127.0.0.1" });
      const drip = setInterval(() => socket.write(index % 3 === 1 ? "x: y\r\n" : " "), DRIP_MS);
      if (index % 3 === 0) clearInterval(drip);
      else socket.write(this.#beginning(index));
      const end = () => socket.destroy();
      this.#signal.addEventListener("abort", end, { once: true });
      await closed(socket);
      this.#signal.removeEventListener("abort", end);
      clearInterval(drip);
      await sleep(100 + this.#chance.below(900), undefined, { signal: this.#signal }).catch(() => {});
    }
  }

  #beginning(index: number): string {
    const lines = ["POST /v1/messages HTTP/1.1", "host: x"];
    if (index % 3 === 1) return `${lines.join("\r\n")}\r\n`;
    lines.push(
      `authorization: Bearer ${this.#victim.key}`,
      "content-type: application/json",
      "content-length: 1000000",
    );
    return `${lines.join("\r\n")}\r\n\r\n{`;
  }
}

function closed(socket: Socket): Promise<void> {
  socket.on("error", () => {});
  socket.resume();
  return new Promise((resolve) => socket.once("close", () => resolve()));
}

function toolsOf(path: AnswerPath, schema: Json, strict: boolean): object {
  if (path === "/v1/messages") return { tools: [{ name: "f", input_schema: schema }], tool_choice: { type: "any" } };
  if (path === "/v1/responses")
    return { tools: [{ type: "function", name: "f", parameters: schema, strict }], tool_choice: "required" };
  return {
    tools: [{ type: "function", function: { name: "f", parameters: schema, strict } }],
    tool_choice: "required",
  };
}
