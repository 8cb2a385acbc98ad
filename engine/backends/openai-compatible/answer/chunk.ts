import type { TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../../errors.ts";
import { type EngineFault, readFault } from "../http/http-error.ts";
import { asCount, asFields, asList, asText, type JsonFields, parseFields } from "../http/json-fields.ts";

export type CallFragment = {
  readonly index: number;
  /** The id of the call; empty if the piece has none. */
  readonly id: string;
  /** The name of the tool; empty if the piece has none. */
  readonly name: string;
  /** The next piece of the arguments' JSON text. */
  readonly arguments: string;
};

/** The token counts so far; undefined fields are not reported. */
export type ChunkUsage = {
  readonly inputTokens: number | undefined;
  readonly cachedInputTokens: number | undefined;
  readonly cacheWriteTokens: number | undefined;
  /** The tokens of the answer, reasoning included. */
  readonly outputTokens: number | undefined;
  readonly reasoningTokens: number | undefined;
};

/** One event of an engine's stream, normalized over dialects. Absent, `null` and empty text are equivalent. */
export type Chunk = {
  /** The failure of an engine after the start of its answer; undefined if there is none. */
  readonly fault: EngineFault | undefined;
  readonly reasoning: string;
  readonly content: string;
  readonly logprobs: readonly TokenLogprob[];
  readonly calls: readonly CallFragment[];
  /** The engine's own finish reason; undefined before the end. */
  readonly finishReason: string | undefined;
  /**
   * The matched stop string; undefined if none matched. Engines report ids of stop tokens in the same field, which are
   * ignored.
   */
  readonly matchedStop: string | undefined;
  readonly usage: ChunkUsage | undefined;
  /** The prompt tokens that the engine has prefilled, during the prefill. */
  readonly prefilledTokens: number | undefined;
  /** The tokens of the prompt, in the event that reports them; otherwise empty. */
  readonly promptTokens: readonly unknown[];
};

/** Parses one event. Throws `EngineError` PROTOCOL_VIOLATION if it is not a JSON object. */
export function readChunk(datum: string): Chunk {
  const fields = parseFields(datum);
  if (!fields) throw new EngineError("PROTOCOL_VIOLATION", "The engine sent something that is not JSON.");
  const choice = asFields(asList(fields.choices)[0]);
  const delta = asFields(choice.delta);
  const finishReason = asText(choice.finish_reason);
  const matchedStop = asText(choice.stop_reason) || asText(choice.matched_stop);
  const progress = asFields(fields.prompt_progress);
  return {
    fault: readFault(fields),
    // One engine names it `reasoning`, the others `reasoning_content`; some builds send both, with equal text.
    reasoning: asText(delta.reasoning_content) || asText(delta.reasoning),
    content: asText(delta.content),
    logprobs: asList(asFields(choice.logprobs).content).map(readLogprob),
    calls: asList(delta.tool_calls).map(readCall),
    finishReason: finishReason === "" ? undefined : finishReason,
    matchedStop: matchedStop === "" ? undefined : matchedStop,
    usage: readUsage(fields, progress),
    prefilledTokens: asCount(progress.processed),
    promptTokens: asList(fields.prompt_token_ids),
  };
}

function readCall(value: unknown, position: number): CallFragment {
  const call = asFields(value);
  const { name, arguments: args } = asFields(call.function);
  return { index: asCount(call.index) ?? position, id: asText(call.id), name: asText(name), arguments: asText(args) };
}

function readUsage(fields: JsonFields, progress: JsonFields): ChunkUsage | undefined {
  const usage = asFields(fields.usage);
  if (asCount(usage.prompt_tokens) !== undefined) {
    const prompt = asFields(usage.prompt_tokens_details);
    return {
      inputTokens: asCount(usage.prompt_tokens),
      cachedInputTokens: asCount(prompt.cached_tokens),
      cacheWriteTokens: asCount(prompt.created_cache_tokens),
      outputTokens: asCount(usage.completion_tokens),
      reasoningTokens:
        asCount(asFields(usage.completion_tokens_details).reasoning_tokens) ?? asCount(usage.reasoning_tokens),
    };
  }
  // llama-server: timings on every chunk, and the progress of the prompt before the first.
  const timings = asFields(fields.timings);
  const cached = asCount(progress.cache) ?? asCount(timings.cache_n);
  const processed = asCount(timings.prompt_n);
  const inputTokens = asCount(progress.total) ?? (processed === undefined ? undefined : processed + (cached ?? 0));
  if (inputTokens === undefined) return undefined;
  return {
    inputTokens,
    cachedInputTokens: cached,
    cacheWriteTokens: undefined,
    outputTokens: asCount(timings.predicted_n),
    reasoningTokens: undefined,
  };
}

function readLogprob(value: unknown): TokenLogprob {
  return { ...readToken(value), alternatives: asList(asFields(value).top_logprobs).map(readToken) };
}

function readToken(value: unknown): { token: string; tokenBytes: Buffer; logprob: number } {
  const { token, bytes, logprob } = asFields(value);
  const text = asText(token);
  return {
    token: text,
    tokenBytes: Array.isArray(bytes) ? Buffer.from(bytes.map(Number)) : Buffer.from(text),
    logprob: typeof logprob === "number" ? logprob : 0,
  };
}
