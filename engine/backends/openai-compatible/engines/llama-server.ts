import { EngineKind } from "../../../../proto/gen/svc/inference/v1/node_service.ts";
import { EngineError } from "../../../errors.ts";
import { readFault } from "../http/http-error.ts";
import { asCount, asFields, asList, asText, type JsonFields } from "../http/json-fields.ts";
import { TokenList } from "../http/token-list.ts";
import {
  type EngineDialect,
  eventTokens,
  namedSampling,
  readLogprob,
  type SamplingNames,
  type TokenChunk,
  type TokenRequest,
} from "./engine-dialect.ts";

const NAMES: SamplingNames = {
  temperature: "temperature",
  topP: "top_p",
  topK: "top_k",
  minP: "min_p",
  frequencyPenalty: "frequency_penalty",
  presencePenalty: "presence_penalty",
  repetitionPenalty: "repeat_penalty",
  seed: "seed",
  topLogprobs: undefined,
  logitBias: undefined,
  minOutputTokens: undefined,
};

/**
 * llama.cpp's server: `/apply-template`, `/tokenize` and `/completion`
 * (https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md).
 */
export const LLAMA_SERVER: EngineDialect = {
  name: "llama-server",
  engineKind: EngineKind.OPENAI_COMPATIBLE,
  paths: {
    generate: "/completion",
    health: "/health",
    models: "/v1/models",
    about: ["/props"],
    load: ["/metrics"],
  },
  advice: "Start llama-server with --jinja.",
  // It reads 2^32 - 1 as a random seed.
  seeds: 2 ** 32 - 1,
  prioritySign: 1,
  saltsCache: false,
  takesEffort: false,
  takesImages: false,
  rendersByCode: false,
  countsBlockCopies: false,
  grammarReader: "llama.cpp",
  grammarsNameTokens: true,
  async render(ask, { messages, tools, templateKwargs }) {
    const { prompt } = await ask("/apply-template", { messages, tools, chat_template_kwargs: templateKwargs });
    const body = { content: asText(prompt), parse_special: true };
    return { tokens: (await ask.tokens("/tokenize", body, "tokens")).tokens, features: undefined };
  },
  async tokenize(ask, _model, text) {
    return (await ask.tokens("/tokenize", { content: text, parse_special: true }, "tokens")).tokens;
  },
  async detokenize(ask, _model, tokens) {
    return asText((await ask("/detokenize", { tokens: new TokenList(tokens) })).content);
  },
  generateBody(request) {
    const { topLogprobs, logitBias } = request;
    const bias = Object.entries(logitBias).map(([token, value]) => [Number(token), value]);
    return {
      prompt: request.tokens,
      n_predict: request.maxTokens,
      ignore_eos: endless(request),
      stream: true,
      return_tokens: true,
      return_progress: true,
      cache_prompt: request.sharedCache,
      id_slot: request.slot,
      preserved_tokens: request.marks,
      ...namedSampling(request, NAMES),
      // It returns the chosen token's own only beside at least one alternative.
      n_probs: topLogprobs === undefined ? undefined : Math.max(1, topLogprobs),
      logit_bias: bias.length > 0 ? bias : undefined,
      grammar: request.grammar,
    };
  },
  chunkReader() {
    // A token without text may be the model's end, which the next event shows.
    let held: TokenChunk | undefined;
    return (event) => {
      const chunk = readChunk(event);
      const before = chunk.finish === "stop" ? undefined : held;
      held = chunk.text === "" && chunk.tokens.length > 0 ? chunk : undefined;
      const shown = held ? { ...chunk, tokens: [], logprobs: [] } : chunk;
      if (!before) return shown;
      return {
        ...shown,
        tokens: [...before.tokens, ...shown.tokens],
        logprobs: [...before.logprobs, ...shown.logprobs],
      };
    };
  },
};

/** Whether an answer has its full length. Throws `EngineError` UNSUPPORTED_FEATURE for another least one. */
function endless({ minOutputTokens: least = 0, maxTokens }: TokenRequest): boolean | undefined {
  if (least === 0) return undefined;
  if (least >= maxTokens) return true;
  throw new EngineError("UNSUPPORTED_FEATURE", "sampling.min_output_tokens: only the full length is supported here.");
}

const FINISH: Readonly<Record<string, TokenChunk["finish"]>> = { eos: "stop", limit: "length" };

function readChunk(event: JsonFields): TokenChunk {
  const timings = asFields(event.timings);
  const progress = asFields(event.prompt_progress);
  return {
    fault: readFault(event),
    // Events of progress carry a token 0 that is none of the answer.
    tokens: event.prompt_progress === undefined ? eventTokens(event.tokens) : [],
    text: asText(event.content),
    logprobs: asList(event.completion_probabilities).map(readLogprob),
    finish: event.stop === true ? (FINISH[asText(event.stop_type)] ?? "error") : undefined,
    cachedInputTokens: asCount(progress.cache) ?? asCount(timings.cache_n),
    prefilledTokens: asCount(progress.processed),
  };
}
