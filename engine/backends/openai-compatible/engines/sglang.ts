import { readFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { EngineKind } from "../../../../proto/gen/svc/inference/v1/node_service.ts";
import { readFault } from "../http/http-error.ts";
import { asCount, asFields, asList, asText, type JsonFields, parseFields } from "../http/json-fields.ts";
import { TokenList } from "../http/token-list.ts";
import {
  type EngineDialect,
  eventTokens,
  finishOf,
  readSampling,
  sharedChat,
  sharedSampling,
  type TokenChunk,
} from "./engine-dialect.ts";

/**
 * SGLang: `/v1/tokenize` with messages, and the native `/generate` with `input_ids`
 * (https://docs.sglang.io/basic_usage/native_api.html). No GPU has run it; its tests run it on a processor.
 */
export const SGLANG: EngineDialect = {
  name: "sglang",
  engineKind: EngineKind.SGLANG,
  paths: {
    generate: "/generate",
    health: "/health",
    models: "/v1/models",
    about: ["/server_info", "/get_server_info"],
    load: ["/v1/loads?include=core,queues", "/metrics"],
    // https://docs.sglang.io/docs/advanced_features/session_radix_cache
    closeSession: "/close_session",
  },
  advice: "Use a version of SGLang whose /v1/tokenize takes messages.",
  seeds: 2 ** 31,
  prioritySign: 1,
  saltsCache: true,
  takesEffort: true,
  takesImages: false,
  rendersByCode: true,
  countsBlockCopies: false,
  grammarReader: "xgrammar",
  grammarsNameTokens: true,
  async kvPublishers(read) {
    const info = await read("/server_info");
    const { dp_size: replicas, attn_dp_size: groups } = info;
    const page = asFields(info.kv_events);
    // The page has no other endpoints than those of TCP, and not whether the engine listens there.
    const config = { endpoint: "tcp://*:5557", ...parseFields(asText(info.kv_events_config)), ...describedOn(page) };
    const ranks = asCount(page.dp_size) ?? (asCount(replicas) || 1) * (asCount(groups) || 1);
    return Array.from({ length: ranks }, (_, rank) => ({ config, rank }));
  },
  async render(ask, prompt) {
    // With any other choice the template gets no tools, or the prompt says that it may call none.
    const { tokens } = await ask.tokens("/v1/tokenize", sharedChat(prompt, "auto"), "tokens");
    return { tokens, features: undefined };
  },
  async samplingDefaults(_ask, _model, read) {
    const info = await read("/server_info");
    // The engine itself prefers them.
    const preferred = asFields(info.preferred_sampling_params);
    if (info.sampling_defaults === "openai") return readSampling(preferred);
    const folder = asText(info.model_path);
    const file = join(folder, "generation_config.json");
    const model = isAbsolute(folder) ? parseFields(await readFile(file, "utf8").catch(() => "")) : undefined;
    return model || info.preferred_sampling_params ? readSampling({ ...model, ...preferred }) : undefined;
  },
  async tokenize(ask, model, text) {
    const body = { model, prompt: text, add_special_tokens: false };
    return (await ask.tokens("/v1/tokenize", body, "tokens")).tokens;
  },
  async detokenize(ask, model, tokens) {
    const body = { model, tokens: new TokenList(tokens), skip_special_tokens: false };
    return asText((await ask("/v1/detokenize", body)).text);
  },
  generateBody(request) {
    const { topLogprobs, grammar } = request;
    return {
      rid: request.requestId,
      input_ids: request.tokens,
      cache_salt: request.cacheSalt,
      session_id: request.sessionId,
      priority: request.priority,
      routed_dp_rank: request.rank,
      stream: true,
      return_logprob: topLogprobs === undefined ? undefined : true,
      top_logprobs_num: topLogprobs,
      return_text_in_logprobs: topLogprobs === undefined ? undefined : true,
      sampling_params: {
        ...sharedSampling(request, { seed: "sampling_seed", topLogprobs: undefined }),
        max_new_tokens: request.maxTokens,
        min_new_tokens: request.minOutputTokens,
        ebnf: grammar,
      },
    };
  },
  chunkReader() {
    // Text and tokens are cumulative, unless the server streams increments.
    let [seenText, seenTokens] = [0, 0];
    return (event) => {
      const chunk = readChunk(event);
      const meta = asFields(event.meta_info);
      const total = asCount(meta.completion_tokens) ?? 0;
      const isWhole = chunk.tokens.length >= total && seenTokens > 0;
      const text = isWhole ? chunk.text.slice(seenText) : chunk.text;
      const tokens = isWhole ? chunk.tokens.slice(seenTokens) : chunk.tokens;
      seenText += text.length;
      seenTokens += tokens.length;
      const isEnd = chunk.finish === "stop" && asFields(meta.finish_reason).matched !== undefined;
      return {
        ...{ ...chunk, text },
        tokens: isEnd ? tokens.slice(0, -1) : tokens,
        logprobs: chunk.logprobs.slice(chunk.logprobs.length - tokens.length, isEnd ? -1 : undefined),
      };
    };
  },
};

/** Returns the endpoints that an engine describes for subscribers, in the form of its configuration. */
function describedOn(page: JsonFields): JsonFields {
  const { publisher, endpoint_port_base: port, replay_endpoint_port_base: replay } = page;
  if (publisher === undefined) return {};
  const host = asText(page.endpoint_host).replace("0.0.0.0", "*");
  const replays = replay !== undefined && { replay_endpoint: `tcp://${host}:${replay}` };
  return { publisher, endpoint: `tcp://${host}:${port}`, ...replays };
}

function readChunk(event: JsonFields): TokenChunk {
  const meta = asFields(event.meta_info);
  const alternatives = asList(meta.output_top_logprobs);
  return {
    fault: readFault(event),
    tokens: eventTokens(event.output_ids),
    text: asText(event.text),
    logprobs: asList(meta.output_token_logprobs).map((entry, at) => ({
      ...readEntry(entry),
      alternatives: asList(alternatives[at]).map(readEntry),
    })),
    finish: finishOf(asText(asFields(meta.finish_reason).type)),
    cachedInputTokens: asCount(meta.cached_tokens),
    prefilledTokens: undefined,
  };
}

/** Reads an entry of log probabilities: `[logprob, token, text]`. */
function readEntry(entry: unknown): { token: string; tokenBytes: Buffer; logprob: number } {
  const [logprob, , text] = asList(entry);
  const token = asText(text);
  return { token, tokenBytes: Buffer.from(token), logprob: typeof logprob === "number" ? logprob : 0 };
}
