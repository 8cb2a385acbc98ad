import { setMaxListeners } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { ANSWER_PATHS, type AnswerPath, bodyFor } from "../http/answer-check.ts";
import { SeededRandom } from "../seeded-random.ts";

/*
 * A caller with a valid key that does what it can to hold the service: schemas that are small and dear, bodies as large
 * as are taken, prompts of very many messages, connections without a request, answers that are left.
 */

/** Whom a hostile caller attacks, and with what key. */
export type Victim = {
  /** The port of the gateway's API on this machine. */
  readonly port: number;
  /** The text of the caller's key. */
  readonly key: string;
};

/** The amounts of what a hostile caller does at once; 0 leaves a way out. */
export type Hostility = {
  /** The number of requests at once with schemas that are dear to look at. */
  readonly schemas: number;
  /** The number of large bodies at once. */
  readonly bodies: number;
  /** The size of a large body in bytes. */
  readonly bodyBytes: number;
  /** The number of requests at once whose prompt is dear to render; half of them are only counted. */
  readonly prompts: number;
  /** The messages of a prompt that is dear to render. */
  readonly promptMessages: number;
  /** The number of connections that are held open with little or nothing on them. */
  readonly connections: number;
  /** The number of requests at once that are left as soon as they are answered. */
  readonly leavers: number;
};

/**
 * The ends of a hostile caller's requests: how many of each way of attack got which status; 0 is a broken connection.
 */
export type HostileTally = Readonly<Record<string, number>>;

/**
 * The time that a hostile caller waits before the same way of attack again, in milliseconds: it takes no notice of what
 * it is told.
 */
const AGAIN_MS = 20;
/** The time between two things that are sent on a connection that is held open, in milliseconds. */
const DRIP_MS = 2_000;

type Json = Readonly<Record<string, unknown>>;
/** Makes a schema of a shape; `size` is from 2 to 61. */
type Shape = (size: number) => Json;

/** Attacks until the signal is aborted; resolves to what became of it. Never rejects. */
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

  /** Does the same again and again until it is over. */
  async again(name: string, once: () => Promise<number>): Promise<void> {
    while (!this.#signal.aborted) {
      const status = await once();
      if (this.#signal.aborted) return;
      const way = `${name} ${status}`;
      this.#tally[way] = (this.#tally[way] ?? 0) + 1;
      await sleep(AGAIN_MS, undefined, { signal: this.#signal }).catch(() => {});
    }
  }

  /**
   * Asks with tools, or for an answer, of a schema that is dear. Every one differs a little, so that none is
   * remembered.
   */
  askWithSchema(index: number): Promise<number> {
    this.#requests += 1;
    const shape = this.#chance.pick(SHAPES);
    const schema = { ...shape(2 + this.#chance.below(60)), title: `t${this.#requests}` };
    const path = ANSWER_PATHS[index % ANSWER_PATHS.length] ?? "/v1/messages";
    const strict = this.#chance.below(3) === 0;
    return this.send(path, bodyFor(path, "call f with a=1", { ...toolsOf(path, schema, strict), stream: true }));
  }

  /** Sends a prompt of very many messages, or has it counted. */
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

  /** Leaves as soon as the head of the answer is there. */
  leave(index: number): Promise<number> {
    const path = ANSWER_PATHS[index % ANSWER_PATHS.length] ?? "/v1/messages";
    return this.send(path, bodyFor(path, `leaver ${index}`, { stream: true }), true);
  }

  /** Sends a body and reads the answer away; resolves to its status, or to 0 where there was none. */
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

  /**
   * Holds a connection: without a word, in the middle of a head, or in the middle of a body. Opens it again when it is
   * closed.
   */
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

/** Makes the fields of a request that has one tool of this schema. */
function toolsOf(path: AnswerPath, schema: Json, strict: boolean): object {
  if (path === "/v1/messages") return { tools: [{ name: "f", input_schema: schema }], tool_choice: { type: "any" } };
  if (path === "/v1/responses")
    return { tools: [{ type: "function", name: "f", parameters: schema, strict }], tool_choice: "required" };
  return {
    tools: [{ type: "function", function: { name: "f", parameters: schema, strict } }],
    tool_choice: "required",
  };
}

/** Shapes of schemas that are small and dear, each of a given size. */
const SHAPES: readonly [Shape, ...Shape[]] = [
  // A definition that refers to itself many times over.
  (size) => ({
    type: "object",
    properties: { a: { $ref: "#/$defs/x" } },
    $defs: { x: { allOf: Array.from({ length: size }, () => ({ $ref: "#/$defs/x" })) } },
  }),
  // Alternatives of alternatives, each level twice as many ways as the one below it.
  (size) => ({
    type: "object",
    properties: { a: { $ref: `#/$defs/l${size}` } },
    $defs: Object.fromEntries(
      Array.from({ length: size + 1 }, (_, level) => [
        `l${level}`,
        level === 0
          ? { type: "string" }
          : { anyOf: [{ $ref: `#/$defs/l${level - 1}` }, { $ref: `#/$defs/l${level - 1}` }] },
      ]),
    ),
  }),
  // A product of what all parts must be.
  (size) => ({
    type: "object",
    allOf: Array.from({ length: Math.min(size, 16) }, (_, at) => ({
      anyOf: [{ properties: { [`p${at}`]: { type: "string" } } }, { properties: { [`q${at}`]: { type: "integer" } } }],
    })),
  }),
  // Long runs.
  (size) => ({ type: "object", properties: { a: { type: "string", minLength: size * 150, maxLength: size * 160 } } }),
  (size) => ({
    type: "object",
    properties: { a: { type: "array", minItems: size, maxItems: size * 4, items: { type: "array", maxItems: size } } },
  }),
  // Very many values, and values that are large.
  (size) => ({
    type: "object",
    properties: { a: { enum: Array.from({ length: size * 40 }, (_, at) => `value number ${at}`) } },
  }),
  // Very many properties, any of which may be left out.
  (size) => ({
    type: "object",
    properties: Object.fromEntries(Array.from({ length: size * 10 }, (_, at) => [`p${at}`, { type: "integer" }])),
  }),
  // Deep nesting.
  (size) => Array.from({ length: size }).reduce<Json>((inner) => ({ type: "object", properties: { a: inner } }), {}),
  // What no schema is.
  () => ({ type: [{ toString: 1 }] }),
  () => ({ type: "object", properties: { a: { $ref: "#/$defs/nowhere" } } }),
  (size) => ({ type: "object", properties: { a: { type: "string", pattern: `^(${"(a|b)*".repeat(size)})*c$` } } }),
];
