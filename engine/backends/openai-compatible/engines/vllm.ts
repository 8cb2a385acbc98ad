import { EngineKind } from "../../../../proto/gen/svc/inference/v1/node_service.ts";
import { readFault } from "../http/http-error.ts";
import { asCount, asFields, asList, asText, type JsonFields } from "../http/json-fields.ts";
import { TokenList } from "../http/token-list.ts";
import {
  type EngineDialect,
  eventTokens,
  finishOf,
  readLogprob,
  readSampling,
  sameAgain,
  sharedChat,
  sharedSampling,
  type TokenChunk,
} from "./engine-dialect.ts";

/**
 * vLLM: `/v1/chat/completions/render` and `/inference/v1/generate`, which need `--enable-scale-out`
 * (https://docs.vllm.ai/en/stable/serving/online_serving/openai_compatible_server/).
 */
export const VLLM: EngineDialect = {
  name: "vllm",
  engineKind: EngineKind.VLLM,
  paths: {
    generate: "/inference/v1/generate",
    health: "/health",
    models: "/v1/models",
    about: ["/version"],
    load: ["/metrics"],
    specialTokens: "/tokenizer_info",
  },
  advice: "Start vLLM with --enable-scale-out.",
  seeds: 2 ** 53,
  prioritySign: -1,
  saltsCache: true,
  takesEffort: true,
  takesImages: true,
  rendersByCode: true,
  countsBlockCopies: true,
  grammarReader: "xgrammar",
  grammarsNameTokens: true,
  async kvPublishers(read) {
    const byRank = Object.entries(await read("/kv_event_sources")).sort(([a], [b]) => Number(a) - Number(b));
    // The ports are those of each rank already.
    return byRank.map(([, config]) => ({ config: asFields(config), rank: 0 }));
  },
  async render(ask, prompt) {
    const body = {
      // It shows the tools all the same; any other choice needs a parser of calls at the engine.
      ...sharedChat(prompt, "none"),
      add_generation_prompt: prompt.continues ? false : undefined,
      // Without it, a prompt that fills the window is refused here.
      max_tokens: 1,
    };
    const { tokens, fields } = await ask.tokens("/v1/chat/completions/render", body, "token_ids");
    return { tokens, features: sameAgain(fields.features) };
  },
  async samplingDefaults(ask, model) {
    const messages = [{ role: "user", content: "Hello." }];
    const rendered = await ask("/v1/chat/completions/render", { model, messages, max_tokens: 1 });
    return readSampling(asFields(rendered.sampling_params));
  },
  async tokenize(ask, model, text) {
    const body = { model, prompt: text, add_special_tokens: false };
    return (await ask.tokens("/tokenize", body, "tokens")).tokens;
  },
  async detokenize(ask, model, tokens) {
    return asText((await ask("/detokenize", { model, tokens: new TokenList(tokens) })).prompt);
  },
  generateBody(request) {
    const { grammar } = request;
    return {
      model: request.model,
      token_ids: request.tokens,
      features: request.features,
      request_id: request.requestId,
      cache_salt: request.cacheSalt,
      priority: request.priority,
      kv_transfer_params: request.handOver && sameAgain(request.handOver),
      stream: true,
      output_mode: "text",
      // Else an engine with a parser of reasoning ignores the grammar up to a closing mark.
      reasoning_ended: true,
      stream_options: { include_usage: true },
      sampling_params: {
        ...sharedSampling(request, { seed: "seed", topLogprobs: "logprobs" }),
        max_tokens: request.maxTokens,
        min_tokens: request.minOutputTokens,
        structured_outputs: grammar === undefined ? undefined : { grammar },
      },
    };
  },
  generateHeaders: ({ rank }) => (rank === undefined ? {} : { "x-data-parallel-rank": String(rank) }),
  chunkReader: () => readChunk,
  handOver: {
    askBody(request) {
      const { stream: _, stream_options: __, ...body } = VLLM.generateBody(request);
      // Only a reply in one piece has what the other engine needs.
      return { ...body, stream: false, kv_transfer_params: { ...NOTHING_REMOTE, do_remote_decode: true } };
    },
    read: (reply) => {
      const said = asFields(reply.kv_transfer_params);
      return nameOfKept(said) === undefined ? undefined : said;
    },
    nameOf: nameOfKept,
    candidates(event) {
      const [first] = asList(asFields(asFields(asList(event.choices)[0]).logprobs).content);
      return new Map(first === undefined ? [] : readLogprob(first).alternatives.map((one) => [one.token, one.logprob]));
    },
  },
};

const NOTHING_REMOTE = {
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
};

/**
 * Returns the name of the blocks that another vLLM reads by NIXL; undefined where a field is missing. An engine dies of
 * some, and reads foreign memory by others.
 */
function nameOfKept(said: JsonFields): string | undefined {
  const { remote_engine_id: engine, remote_request_id: request, remote_host: host, remote_port: port } = said;
  const groups = asList(said.remote_block_ids);
  const hasBlocks = groups.length > 0 && groups.every(isBlockList) && groups.some((ids) => asList(ids).length > 0);
  const isPulled = said.do_remote_prefill === true && said.do_remote_decode === false && said.transfer_mode === "pull";
  const isNamed = asText(engine) !== "" && asText(request) !== "" && asText(host) !== "" && asCount(port) !== undefined;
  return hasBlocks && isPulled && isNamed ? `${engine} ${request}` : undefined;
}

function isBlockList(ids: unknown): boolean {
  return Array.isArray(ids) && ids.every((id) => asCount(id) !== undefined);
}

function readChunk(event: JsonFields): TokenChunk {
  const choice = asFields(asList(event.choices)[0]);
  const finish = asText(choice.finish_reason);
  const tokens = eventTokens(choice.token_ids);
  const text = asText(choice.text);
  return {
    fault: readFault(event),
    // The token of the model's end comes without text.
    tokens: finish === "stop" ? tokens.slice(0, -1) : tokens,
    text,
    logprobs: asList(asFields(choice.logprobs).content)
      .slice(0, finish === "stop" ? -1 : undefined)
      .map(readLogprob),
    finish: finishOf(finish),
    cachedInputTokens: asCount(asFields(asFields(event.usage).prompt_tokens_details).cached_tokens),
    prefilledTokens: undefined,
  };
}
