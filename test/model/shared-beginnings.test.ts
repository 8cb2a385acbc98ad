import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import type { Message } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, system, text, user } from "../support/engine/canonical.ts";
import { ask, askUntilWords, digested, missing, never, startBackend } from "../support/engine/demo-engine.ts";

const TURNS = 3;
const rulesOf = (group: string) => system(`${group} ${"You are a terse assistant, and look things up. ".repeat(24)}`);
const AGENTS = ["Anna", "Ben", "Cleo", "Dora"];
/** No more than there are agents: later ones find those of other tests, which go first. */
const SLOTS = AGENTS.length;
/** The part of its former prompt that a later turn finds at least. */
const FOUND = 0.95;

type Turn = { readonly tokens: number; readonly cached: number };

/** An agent's conversation. */
class Conversation {
  readonly turns: Turn[] = [];
  readonly #backend: LlamaBackend;
  readonly #name: string;
  readonly #affinityKey: string;
  #messages: readonly Message[];

  constructor(backend: LlamaBackend, rules: Message, name: string, affinityKey: string) {
    this.#backend = backend;
    this.#name = name;
    this.#affinityKey = affinityKey;
    this.#messages = [rules];
  }

  async turn(): Promise<void> {
    this.#messages = [...this.#messages, user(`I am ${this.#name}. Count from ${this.turns.length} to nine, please.`)];
    const cache = { affinityKey: this.#affinityKey, isolationSalt: "", ttl: undefined };
    const { finished, cached, text: said } = await ask(this.#backend, digested(this.#messages, [], { cache }));
    this.turns.push({ tokens: finished.usage?.inputTokens ?? 0, cached });
    this.#messages = [...this.#messages, assistant(text(said))];
  }

  /** The least part of a turn's prompt that the next one found. */
  get found(): number {
    return Math.min(...this.turns.slice(1).map(({ cached }, at) => cached / (this.turns[at]?.tokens ?? 0)));
  }
}

describe.skipIf(missing !== "")("agents with one system prompt on one node", () => {
  let backend: LlamaBackend;
  beforeAll(async () => {
    backend = await startBackend({ slots: SLOTS });
  });
  afterAll(() => backend.close());

  const tokensOf = (rules: Message) => backend.countTokens(digested([rules]), never());

  test.each<[name: string, keyOf: (agent: string) => string]>([
    ["each in a session of its own", (agent) => `session of ${agent}`],
    ["in one session, as Claude Code and its sub-agents", () => "one session"],
    ["without names of sessions", () => ""],
  ])("agents with one system prompt in rotation, %s, keep all they had", async (name, keyOf) => {
    const rules = rulesOf(name);
    const agents = AGENTS.map((agent) => new Conversation(backend, rules, agent, keyOf(agent)));
    for (let turn = 0; turn < TURNS; turn += 1) for (const agent of agents) await agent.turn();
    for (const agent of agents) expect(agent.found).toBeGreaterThan(FOUND);
    // All but the first found what they have in common.
    const common = await tokensOf(rules);
    for (const agent of agents.slice(1)) expect(agent.turns[0]?.cached).toBeGreaterThan(FOUND * common);
  });

  test("sub-agents that start together beside their running parent find its beginning, and it keeps its own", async () => {
    const rules = rulesOf("Parent and children.");
    const cache = { affinityKey: "one session", isolationSalt: "", ttl: undefined };
    const messages = [rules, user("Count from 1 to 60, please.")];
    // Its prompt is read when its first words come.
    const rest = await askUntilWords(backend, digested(messages, [], { maxOutputTokens: 200, cache }));

    const children = ["Emil", "Finn"].map((agent) => new Conversation(backend, rules, agent, "one session"));
    await Promise.all(children.map((child) => child.turn()));
    expect(backend.load().busySlots).toBe(1);
    const common = await tokensOf(rules);
    for (const child of children) expect(child.turns[0]?.cached).toBeGreaterThan(FOUND * common);

    const { text: words, finished } = await rest();
    const said = assistant(text(words));
    const { cached } = await ask(backend, digested([...messages, said, user("Once more.")], [], { cache }));
    const { inputTokens = 0, outputTokens = 0 } = finished.usage ?? {};
    expect(outputTokens).toBeGreaterThan(20);
    expect(cached).toBeGreaterThan(FOUND * (inputTokens + outputTokens));
    for (const child of children) await child.turn();
    for (const child of children) expect(child.found).toBeGreaterThan(FOUND);
  });
});
