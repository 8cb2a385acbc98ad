import { setTimeout as sleep } from "node:timers/promises";
import { exponential, seededRandom } from "../../support/seeded-random.ts";
import type { BenchGateway } from "../processes/gateway-process.ts";

/** Four characters are a simulated token. */
const CHARACTERS_PER_TOKEN = 4;

/** How the agents of a caller behave. */
export type AgentHabits = {
  /** The number of agents; all sessions of one agent share its system prompt. */
  readonly agents: number;
  /** The tokens of an agent's system prompt. */
  readonly headTokens: number;
  /** The number of turns of a session. */
  readonly turns: number;
  /** The tokens that the tools return in a turn, on average. */
  readonly turnTokens: number;
  /** The mean time between two turns, in milliseconds. */
  readonly meanThinkMs: number;
  /** The most tokens of an answer. Default: as many as the model comes to. */
  readonly maxAnswerTokens?: number;
};

/** One turn of a session, as it was measured. */
export type Turn = {
  /** Monotonic milliseconds at which the request was sent. */
  readonly sentAtMs: number;
  /** The milliseconds from the request's sending to the first text of its answer. */
  readonly firstTokenMs: number;
  /** The tokens of the prompt, as the answer counts them. */
  readonly promptTokens: number;
  /** The tokens of the prompt that were in a cache, as the answer counts them. */
  readonly cachedTokens: number;
  /** The tokens of the prompt that the gateway expected in the cache when it sent the request; NaN where it did not say. */
  readonly expectedTokens: number;
};

type Message = { readonly role: "system" | "user" | "assistant"; readonly content: string };
type Chunk = {
  readonly choices: readonly { readonly delta: { readonly content?: string | null } }[];
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens: number };
  } | null;
};

/**
 * Calls as an agent does, one call at a time: session after session of growing prompts over HTTP, with time to think
 * between the turns, until the signal is aborted. It sends no cache key: which calls belong together is the gateway's
 * to find out.
 */
export async function callLikeAgents(
  gateway: BenchGateway,
  habits: AgentHabits,
  seed: number,
  onTurn: (turn: Turn) => void,
  signal: AbortSignal,
): Promise<void> {
  const chance = seededRandom(seed);
  for (let session = 0; !signal.aborted; session += 1) {
    const agent = Math.floor(chance() * habits.agents);
    const messages: Message[] = [
      { role: "system", content: filler(`agent ${agent}`, habits.headTokens) },
      { role: "user", content: filler(`caller ${seed} session ${session}`, habits.turnTokens) },
    ];
    for (let turn = 0; turn < habits.turns && !signal.aborted; turn += 1) {
      const { text, ...seen } = await ask(gateway, messages, habits.maxAnswerTokens);
      onTurn(seen);
      const tokens = exponential(habits.turnTokens, chance);
      messages.push({ role: "assistant", content: text }, { role: "user", content: filler(`result ${turn}`, tokens) });
      await sleep(exponential(habits.meanThinkMs, chance), undefined, { signal }).catch(() => {});
    }
  }
}

/** Text of about so many tokens that differs by `name` from its start on. */
function filler(name: string, tokens: number): string {
  const line = `${name}: the quick brown fox jumps over the lazy dog. `;
  const characters = Math.max(CHARACTERS_PER_TOKEN, Math.round(tokens * CHARACTERS_PER_TOKEN));
  return line.repeat(Math.ceil(characters / line.length)).slice(0, Math.max(characters, name.length));
}

async function ask(
  gateway: BenchGateway,
  messages: readonly Message[],
  maxTokens: number | undefined,
): Promise<Turn & { readonly text: string }> {
  const options = { stream: true, stream_options: { include_usage: true }, max_tokens: maxTokens };
  const body = { model: "svc-qwen", ...options, messages };
  const sentAtMs = performance.now();
  const response = await fetch(`http://127.0.0.1:${gateway.port}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok || !response.body) throw new Error(`the gateway answered ${response.status}`);
  let firstTokenMs = Number.NaN;
  let text = "";
  let usage: Chunk["usage"];
  let rest = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + piece).split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) {
      if (!frame.startsWith("data: {")) continue;
      const chunk: Chunk = JSON.parse(frame.slice("data: ".length));
      const delta = chunk.choices[0]?.delta.content;
      if (delta) {
        if (text === "") firstTokenMs = performance.now() - sentAtMs;
        text += delta;
      }
      usage = chunk.usage ?? usage;
    }
  }
  if (!usage) throw new Error("the answer ended without its usage");
  const cachedTokens = usage.prompt_tokens_details?.cached_tokens ?? 0;
  const expectedTokens = Number(/expected=(\d+)/.exec(response.headers.get("x-svc-cache") ?? "")?.[1]);
  return { text, sentAtMs, firstTokenMs, promptTokens: usage.prompt_tokens, cachedTokens, expectedTokens };
}
