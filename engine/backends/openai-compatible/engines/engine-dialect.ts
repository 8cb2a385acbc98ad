import type { Sampling, TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { EngineKind } from "../../../../proto/gen/svc/inference/v1/node_service.ts";
import type { GrammarReader } from "../../../gbnf/gbnf.ts";
import type { EngineFault } from "../http/http-error.ts";
import { asCount, asFields, asList, asText, type JsonFields } from "../http/json-fields.ts";
import { type JsonValue, RawJson } from "../http/raw-json.ts";
import type { TokenList, TokenReply } from "../http/token-list.ts";

export type DialectName = "vllm" | "sglang" | "llama-server";

/** A conversation in the form of the chat completions API, for the engine's own chat template. */
export type ChatPrompt = {
  readonly model: string;
  readonly messages: readonly JsonValue[];
  /** The tools that the template shows to the model; undefined for none. */
  readonly tools: JsonValue;
  readonly templateKwargs: Readonly<Record<string, string | number | boolean>>;
  readonly reasoningEffort: string | undefined;
  /** Whether the last message is the begun answer. */
  readonly continues: boolean;
};

export type RenderedPrompt = {
  readonly tokens: Uint32Array;
  /** The engine's own form of the prompt's images, which goes back to it unchanged; undefined without images. */
  readonly features: JsonValue;
};

/** Posts JSON to a path of the engine. Throws `EngineError`. */
export type Ask = {
  /** Resolves to the reply's fields. */
  (path: string, body: JsonValue): Promise<JsonFields>;
  /** Resolves to the list of tokens that the reply has under `name`, and to its other fields. */
  tokens(path: string, body: JsonValue, name: string): Promise<TokenReply>;
};

/** Resolves to the fields of a page of the engine, none if there is no such page. Throws `EngineError` ENGINE_DOWN. */
export type ReadPage = (path: string) => Promise<JsonFields>;

/**
 * The sampling parameters that a request may set; undefined for the engine's default. A new field of the contract does
 * not compile until `toSampling` fills it and each engine names it. Stop strings are matched by the node.
 */
export type TokenSampling = {
  readonly [Key in Exclude<keyof Required<Sampling>, "stop">]: Sampling[Key];
};

/** An engine's names of the parameters; undefined for one that is written apart. */
export type SamplingNames = { readonly [Key in keyof TokenSampling]: string | undefined };

/** A publisher of KV events: at the configured endpoints, `rank` ports further. */
export type KvPublisher = { readonly config: JsonFields; readonly rank: number };

export type TokenRequest = TokenSampling & {
  readonly model: string;
  readonly tokens: TokenList;
  readonly features: JsonValue;
  /** The most tokens of the answer, at least 1, within the context window. */
  readonly maxTokens: number;
  /** The grammar of the output, in the engine's form; undefined for free output. */
  readonly grammar: string | undefined;
  /** The spellings of special tokens that the text of the answer must contain. */
  readonly marks: readonly string[];
  readonly cacheSalt: string;
  /** Whether tenants may share the prefix cache of an engine that cannot isolate them. */
  readonly sharedCache: boolean;
  readonly sessionId: string | undefined;
  /** The priority in the engine's own sign; undefined if the engine has no priority scheduling. */
  readonly priority: number | undefined;
  readonly requestId: string | undefined;
  /** The slot that is to generate; undefined for an engine without slots, or that picks it. */
  readonly slot: number | undefined;
  /** The data-parallel rank that is to generate; undefined for an engine with one, or that picks it. */
  readonly rank: number | undefined;
  /** The words of the engine that has read the prompt, for this one (`HandOverForm.read`); undefined for none. */
  readonly handOver: JsonFields | undefined;
};

/** How one engine takes a prompt that another has read: by the words of the other, which go to it unchanged. */
export type HandOverForm = {
  /** Returns the body of a call that reads a prompt for another engine; the reply comes in one piece. */
  askBody(request: TokenRequest): Record<string, JsonValue>;
  /** Returns the part of its reply for the other engine; undefined where nothing was kept. */
  read(reply: JsonFields): JsonFields | undefined;
  /** Returns the name of the kept prompt; undefined where another engine could not take it, or would fail. */
  nameOf(said: JsonFields): string | undefined;
  /** Returns the likely first tokens of the answer in an event or reply with its first token; empty if not reported. */
  candidates(event: JsonFields): ReadonlyMap<string, number>;
};

export type TokenChunk = {
  readonly fault: EngineFault | undefined;
  readonly tokens: readonly number[];
  /** The text that is certain now. Characters may come later than their first tokens. */
  readonly text: string;
  readonly logprobs: readonly TokenLogprob[];
  /** How the answer ended; undefined before its end. `stop` is the model's own end. */
  readonly finish: "stop" | "length" | "abort" | "error" | undefined;
  /** The prompt tokens found in the engine's cache; undefined if not reported. */
  readonly cachedInputTokens: number | undefined;
  /** The prompt tokens that the engine has prefilled, during the prefill; undefined if not reported. */
  readonly prefilledTokens: number | undefined;
};

/** The calls and properties of one kind of engine: render a conversation to tokens, generate from tokens. */
export interface EngineDialect {
  readonly name: DialectName;
  readonly engineKind: EngineKind;
  readonly paths: {
    readonly generate: string;
    readonly health: string;
    readonly models: string;
    /** The paths that return the version; the first that answers counts. */
    readonly about: readonly string[];
    readonly load: readonly string[];
    /** The path that closes a session under which the engine protects cached prefixes; undefined without sessions. */
    readonly closeSession?: string;
    readonly specialTokens?: string;
  };
  /** The advice for an operator whose engine does not render or generate by tokens. */
  readonly advice: string;
  readonly seeds: number;
  /** The engine's sign of a higher priority: 1 for higher values, -1 for lower ones. */
  readonly prioritySign: 1 | -1;
  readonly saltsCache: boolean;
  /** Whether the chat call has its own field for the reasoning effort. */
  readonly takesEffort: boolean;
  readonly takesImages: boolean;
  /** Whether prompts of families without a template in Jinja are written by code, as `profile.renderer` does. */
  readonly rendersByCode: boolean;
  /** Whether the KV events report each stored and removed copy of a block. */
  readonly countsBlockCopies: boolean;
  readonly grammarReader: GrammarReader["name"];
  /** Whether grammars may name tokens, so that the model's marks come as those and not spelled by other tokens. */
  readonly grammarsNameTokens: boolean;
  /**
   * Resolves to the engine's configuration of the publisher of KV events, of each data-parallel rank; empty if it
   * publishes none. Absent for an engine without such events.
   */
  kvPublishers?(read: ReadPage): Promise<readonly KvPublisher[]>;
  /** Renders a conversation with the engine's template and tokenizer. Throws `EngineError`. */
  render(ask: Ask, prompt: ChatPrompt): Promise<RenderedPrompt>;
  /**
   * Resolves to the sampling parameters of the model's own configuration, which a generation from tokens does not apply;
   * undefined if they are not known. Absent where the engine applies them.
   */
  samplingDefaults?(ask: Ask, model: string, read: ReadPage): Promise<Partial<TokenSampling> | undefined>;
  /** Resolves to the tokens of a text, special tokens included, without any at its beginning. */
  tokenize(ask: Ask, model: string, text: string): Promise<Uint32Array>;
  /** Resolves to the text of tokens, special tokens included; an incomplete character is U+FFFD. */
  detokenize(ask: Ask, model: string, tokens: ArrayLike<number>): Promise<string>;
  /** Returns the body of a generation. Only known fields are written: engines ignore unknown ones. */
  generateBody(request: TokenRequest): Record<string, JsonValue>;
  generateHeaders?(request: TokenRequest): Readonly<Record<string, string>>;
  /** Absent for an engine whose prompts no other one takes. */
  readonly handOver?: HandOverForm;
  chunkReader(): (event: JsonFields) => TokenChunk;
}

/** Returns a value of the engine's reply that goes back to the engine unchanged. */
export function sameAgain(value: unknown): JsonValue {
  return value === undefined || value === null ? undefined : new RawJson(JSON.stringify(value));
}

/** Returns the tokens of an event; none if it has no list of tokens. */
export function eventTokens(list: unknown): readonly number[] {
  return Array.isArray(list) && list.every((token) => asCount(token) !== undefined) ? list : [];
}

/** Reads a log probability in the form of the chat completions API. */
export function readLogprob(value: unknown): TokenLogprob {
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

/** Reads the end of an answer, as vLLM and SGLang name it; "" before the end. */
export function finishOf(name: string): TokenChunk["finish"] {
  if (name === "") return undefined;
  return name === "stop" || name === "length" || name === "abort" ? name : "error";
}

/**
 * Returns the fields of a conversation that vLLM and SGLang name alike. With `toolChoice` the engine shows the tools to
 * the model in the template's own form.
 */
export function sharedChat(
  { model, messages, tools, ...prompt }: ChatPrompt,
  toolChoice: "auto" | "none",
): Record<string, JsonValue> {
  return {
    ...{ model, messages, tools },
    tool_choice: tools === undefined ? undefined : toolChoice,
    chat_template_kwargs: prompt.templateKwargs,
    reasoning_effort: prompt.reasoningEffort,
    continue_final_message: prompt.continues || undefined,
  };
}

/** Reads the sampling parameters of a model's own configuration; no others. */
export function readSampling(fields: JsonFields): Partial<TokenSampling> {
  const numberOf = (name: string) => (typeof fields[name] === "number" ? fields[name] : undefined);
  return {
    temperature: numberOf("temperature"),
    topP: numberOf("top_p"),
    topK: numberOf("top_k"),
    minP: numberOf("min_p"),
    frequencyPenalty: numberOf("frequency_penalty"),
    presencePenalty: numberOf("presence_penalty"),
    repetitionPenalty: numberOf("repetition_penalty"),
  };
}

/** Returns the sampling parameters under an engine's names. */
export function namedSampling(request: TokenRequest, names: SamplingNames): Record<string, JsonValue> {
  const named = Object.entries(names).flatMap(([key, name]) =>
    name === undefined ? [] : [[name, request[key as keyof TokenSampling]]],
  );
  return Object.fromEntries(named);
}

/** The names that vLLM and SGLang have in common. */
const SHARED_NAMES: Omit<SamplingNames, "seed" | "topLogprobs"> = {
  temperature: "temperature",
  topP: "top_p",
  topK: undefined,
  minP: "min_p",
  frequencyPenalty: "frequency_penalty",
  presencePenalty: "presence_penalty",
  repetitionPenalty: "repetition_penalty",
  logitBias: undefined,
  minOutputTokens: undefined,
};

/** Returns the sampling parameters of vLLM and SGLang, whose names for the seed and log probabilities differ. */
export function sharedSampling(
  request: TokenRequest,
  names: Pick<SamplingNames, "seed" | "topLogprobs">,
): Record<string, JsonValue> {
  const { topK, logitBias } = request;
  return {
    ...namedSampling(request, { ...SHARED_NAMES, ...names }),
    top_k: topK === 0 ? -1 : topK,
    logit_bias: Object.keys(logitBias).length > 0 ? logitBias : undefined,
    skip_special_tokens: false,
    spaces_between_special_tokens: false,
  };
}
