import { setTimeout as sleep } from "node:timers/promises";
import { exponential, seededRandom } from "../../support/seeded-random.ts";
import type { BenchGateway } from "../processes/gateway-process.ts";

/** A simulated token is four characters. */
const CHARACTERS_PER_TOKEN = 4;

export type AgentHabits = {
  /** The number of agents; all sessions of an agent share its system prompt. */
  readonly agents: number;
  readonly headTokens: number;
  readonly turns: number;
  /** The mean tokens of tool results per turn. */
  readonly turnTokens: number;
  /** The mean time between two turns, in milliseconds. */
  readonly meanThinkMs: number;
  /** The maximum tokens of an answer. Default: the model's own end. */
  readonly maxAnswerTokens?: number;
};

export type Turn = {
  /** The send time of the request, in monotonic milliseconds. */
  readonly sentAtMs: number;
  /** The time from sending the request to the first text of its answer, in milliseconds. */
  readonly firstTokenMs: number;
  readonly promptTokens: number;
  /** The cached prompt tokens, as reported in the answer. */
  readonly cachedTokens: number;
  /** The cached prompt tokens that the gateway expected when it sent the request; NaN if it reported none. */
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
 * Calls as an agent does, one call at a time: successive sessions of growing prompts over HTTP, with pauses between
 * turns, until the signal is aborted. It sends no cache key: the gateway must detect which calls belong together.
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

/** Returns text of about `tokens` tokens that begins with `name`. */
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
