import type { Boundary, PromptShape } from "../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import type { Segment } from "./prefix-cache.ts";
import { exponential } from "./seeded-random.ts";

/** The traffic of coding agents; means are of exponential distributions. */
export type AgentTraffic = {
  /** The number of new sessions per second, evenly at random. */
  readonly sessionsPerSecond: number;
  readonly meanTurns: number;
  /** The number of agents: all sessions of one share their system prompt and tools. */
  readonly agents: number;
  readonly headTokens: number;
  /** The tokens that a turn adds, on the average: the answer and what the tools return to it. */
  readonly turnTokens: number;
  readonly meanThinkMs: number;
  readonly sharedCacheKey: boolean;
};

/** The traffic of coding agents as it was measured on real ones. */
export const AGENT_TRAFFIC: AgentTraffic = {
  sessionsPerSecond: 0.1,
  meanTurns: 42,
  agents: 5,
  headTokens: 20_000,
  turnTokens: 4_000,
  meanThinkMs: 8_000,
  sharedCacheKey: false,
};

/** Share of what a turn adds that the model itself wrote. */
const ANSWER_SHARE = 0.15;
const FIRST_MESSAGE_TOKENS = 1_000;

/** One agent session: a prompt that grows from turn to turn. */
export class AgentSession {
  readonly affinityKey: string;
  readonly #id: string;
  readonly #traffic: AgentTraffic;
  readonly #random: () => number;
  readonly #segments: Segment[] = [];
  readonly #boundaries: Boundary[] = [];
  #turnsLeft: number;

  constructor(index: number, traffic: AgentTraffic, random: () => number) {
    this.#id = `s${index}`;
    this.#traffic = traffic;
    this.#random = random;
    this.affinityKey = traffic.sharedCacheKey ? "everybody" : this.#id;
    this.#turnsLeft = Math.max(1, Math.ceil(exponential(traffic.meanTurns, random)));
    this.#add(`agent${Math.floor(random() * traffic.agents)}`, traffic.headTokens);
    this.#add(`${this.#id}.0`, FIRST_MESSAGE_TOKENS);
  }

  get prompt(): readonly Segment[] {
    return this.#segments;
  }

  get promptTokens(): number {
    return this.#segments.reduce((sum, { tokens }) => sum + tokens, 0);
  }

  get shape(): PromptShape {
    const turns = (this.#boundaries.length - 2) / 2;
    return { boundaries: [...this.#boundaries], lastTurn: turns === 0 ? undefined : this.#boundaries.length - 3 };
  }

  /** The model has answered: returns the prompt with the answer in it, which the engine now holds. */
  answered(): readonly Segment[] {
    this.#add(
      `${this.#id}.${this.#segments.length}`,
      exponential(this.#traffic.turnTokens * ANSWER_SHARE, this.#random),
    );
    return [...this.#segments];
  }

  /** The tools have returned: adds their results. False when the session is over. */
  nextTurn(): boolean {
    this.#turnsLeft -= 1;
    const tokens = exponential(this.#traffic.turnTokens * (1 - ANSWER_SHARE), this.#random);
    this.#add(`${this.#id}.${this.#segments.length}`, tokens);
    return this.#turnsLeft > 0;
  }

  #add(id: string, meanTokens: number): void {
    const tokens = Math.max(1, Math.round(meanTokens));
    // Text is of different density, so that nobody can tell tokens from bytes exactly.
    const bytes = Math.round(tokens * (3 + 2 * this.#random()));
    const before = this.#boundaries.at(-1)?.bytes ?? 0;
    this.#segments.push({ id, tokens });
    this.#boundaries.push({ hash: id, bytes: before + bytes, marked: false });
  }
}
