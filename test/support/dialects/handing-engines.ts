import { createHash } from "node:crypto";
import type { MonotonicClock } from "../../../deploy/runtime/time/clock.ts";
import type { Asked, Body, Reply } from "./dialect-server.ts";
import { END_TOKEN, toTokens } from "./stand-in-text.ts";

/** The lease of a kept prompt, in milliseconds, as vLLM's `kv_lease_duration` of 30 s. */
export const LEASE_MS = 30_000;

type Kept = { readonly prompt: string; readonly untilMs: number };

export type HandingOptions = {
  readonly clock: Pick<MonotonicClock, "nowMs">;
  /** What an engine does that cannot read from the other one: as `kv_load_failure_policy`. Default: `recompute`. */
  readonly policy?: "recompute" | "fail";
};

/**
 * Stand-ins of vLLM engines that read prompts from each other, as vLLM 0.32 does by NIXL: the memory of a prompt belongs
 * to others behind its lease and its first reader, without notice: the reader then answers other text.
 */
export class HandingEngines {
  readonly #options: HandingOptions;
  readonly #kept = new Map<string, Kept>();
  #count = 0;
  /** Whether engines reach each other. */
  isConnected = true;
  /** The prompts that engines have read themselves, and those taken from another one, by the engine's name. */
  readonly read: { readonly engine: string; readonly prompt: string }[] = [];
  readonly taken: typeof this.read = [];

  constructor(options: HandingOptions) {
    this.#options = options;
  }

  /** The number of prompts that are kept now. */
  get pinned(): number {
    const nowMs = this.#options.clock.nowMs();
    return [...this.#kept.values()].filter(({ untilMs }) => untilMs > nowMs).length;
  }

  /** Returns the model of an engine, for the options of a dialect's server. */
  modelOf(engine: string): (asked: Asked) => Reply {
    return (asked) => {
      const params = asked.body.kv_transfer_params as Body | undefined;
      if (params?.do_remote_decode === true) return this.#keep(engine, asked);
      if (params?.do_remote_prefill !== true) return this.#answer(engine, asked, asked.prompt);
      // The engine's core has no name for what it needs, and ends.
      if (params.remote_block_ids === undefined) throw new Error("the engine has died of a hand-over");
      return this.#take(engine, asked, String(params.remote_request_id));
    };
  }

  #keep(engine: string, asked: Asked): Reply {
    this.#count += 1;
    const name = `generate-tokens-${this.#count}`;
    this.#kept.set(name, { prompt: asked.prompt, untilMs: this.#options.clock.nowMs() + LEASE_MS });
    this.read.push({ engine, prompt: asked.prompt });
    const kept = {
      ...{ do_remote_prefill: true, do_remote_decode: false, remote_block_ids: [[this.#count]], transfer_mode: "pull" },
      ...{ remote_engine_id: engine, remote_request_id: name, remote_host: "127.0.0.1", remote_port: 5_600 },
      ...{ tp_size: 1, remote_num_tokens: asked.tokens.length, remote_blocks_expiry_time: null },
    };
    const choice = {
      index: 0,
      finish_reason: "length",
      token_ids: [88],
      text: "X",
      logprobs: logprobsOf(asked.prompt),
    };
    const usage = { prompt_tokens: asked.tokens.length, prompt_tokens_details: { cached_tokens: 16 } };
    return { kind: "status", status: 200, body: { choices: [choice], usage, kv_transfer_params: kept } };
  }

  #take(engine: string, asked: Asked, name: string): Reply {
    const kept = this.#kept.get(name);
    const isLeased = kept !== undefined && kept.untilMs > this.#options.clock.nowMs();
    this.#kept.delete(name);
    if (!this.isConnected) {
      if (this.#options.policy !== "fail") return this.#answer(engine, asked, asked.prompt);
      const error = { message: "Internal server error", type: "InternalServerError", code: 500 };
      return { kind: "stream", data: [{ error }], end: "done" };
    }
    const prompt = isLeased ? kept.prompt : "what another one has written there";
    this.taken.push({ engine, prompt });
    return this.#answer(engine, asked, prompt, true);
  }

  #answer(engine: string, asked: Asked, prompt: string, isTaken = false): Reply {
    if (asked.grammar.includes("A12B")) return { kind: "answer", answer: { text: ['"A12B"'] } };
    if (!isTaken) this.read.push({ engine, prompt });
    const logprobs = (asked.body.sampling_params as Body).logprobs === undefined ? null : logprobsOf(prompt);
    const piece = (text: string) => ({
      choices: [{ index: 0, token_ids: toTokens(text), text, logprobs }],
      usage: null,
    });
    const usage = { prompt_tokens: asked.tokens.length, prompt_tokens_details: { cached_tokens: isTaken ? 16 : 0 } };
    const end = { index: 0, finish_reason: "stop", token_ids: [END_TOKEN], text: "" };
    const data = [piece("of "), piece(digestOf(prompt)), { choices: [end] }, { choices: [], usage }];
    return { kind: "stream", data, end: "done" };
  }
}

/** Returns what the stand-ins answer to a prompt, which has this text. */
export function answerTo(prompt: string): string {
  return `of ${digestOf(prompt)}`;
}

function digestOf(prompt: string): string {
  return createHash("sha256").update(prompt).digest("hex").slice(0, 8);
}

/** The log probabilities of a first token: those of two prompts differ. */
function logprobsOf(prompt: string): object {
  const bytes = createHash("sha256").update(prompt).digest();
  const alternatives = Array.from({ length: 8 }, (_, at) => ({ token: `t${at}`, logprob: -1 - (bytes[at] ?? 0) / 32 }));
  return { content: [{ ...alternatives[0], bytes: null, top_logprobs: alternatives }] };
}
