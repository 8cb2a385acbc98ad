import * as z from "zod";
import type { Duration } from "../../proto/gen/google/protobuf/duration.ts";
import { type Reasoning, ReasoningEffort, ReasoningMode } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { CacheBreakpoint } from "../../proto/gen/svc/inference/v1/messages.ts";
import { isJsonObject } from "../json/json-text.ts";
import { unchecked } from "./checked.ts";

/*
 * The forms of the formats' schemas. Requests are checked by them (`checked.ts`), and the documentation of requests and
 * replies is generated from them.
 */

/** The JSON Schema key of fields that are accepted without effect. */
export const NO_EFFECT = "x-no-effect";

/** Makes an object, open to other keys, that the reference shows under `id`. */
export function named<Shape extends z.ZodRawShape>(id: string, description: string, shape: Shape) {
  return z.object(shape).meta({ id, description });
}

/** As `named`, without other keys. */
export function closed<Shape extends z.ZodRawShape>(id: string, description: string, shape: Shape) {
  return z.strictObject(shape).meta({ id, description });
}

export function optional<Schema extends z.ZodType>(schema: Schema, description: string) {
  return schema.nullish().describe(description);
}

export function withoutEffect(description: string) {
  return z
    .unknown()
    .optional()
    .meta({ description, [NO_EFFECT]: true });
}

/** Marks a value that is checked but has no effect. */
export function inert<Inert extends z.ZodType>(schema: Inert, description: string) {
  return schema.meta({ description, [NO_EFFECT]: true });
}

export function jsonSchemaField(description: string) {
  return z.looseObject({}).meta({ description });
}

/** Makes the field that distinguishes objects of several forms. `others` explains why no other form is supported. */
export function tag<const Name extends string>(name: Name, others?: string) {
  return z.literal(name, others).meta({ description: `Always \`${name}\`.` });
}

/** In seconds. */
const TTL_SECONDS: ReadonlyMap<string, number> = new Map(
  Object.entries({ "5m": 300, "30m": 1_800, "1h": 3_600, "6h": 21_600, "24h": 86_400 }),
);

export const CACHE_TTLS: readonly string[] = [...TTL_SECONDS.keys()];

export const cacheControl = unchecked(
  named("CacheControl", "A mark that a reusable beginning of the prompt ends here. It is a hint and never refused.", {
    type: withoutEffect("The format's own word, `ephemeral`."),
    ttl: z
      .enum(CACHE_TTLS)
      .optional()
      .describe(
        "How long the beginning is worth keeping; any other value is the default. Default: the node's own time.",
      ),
  }).nullish(),
).describe("A mark that a reusable beginning of the prompt ends here.");

export const modelId = z.string().describe("The id of the model, out of those that `GET /v1/models` lists.");

export const flag = z.boolean().nullish();

export const stream = flag.describe("Whether the answer comes as server-sent events. Default: `false`.");

export const strictTool = flag.describe(
  "Whether the arguments are held to the whole schema; see *Structured output*. Default: `false`.",
);

export const strictAnswer = flag.describe(
  "Whether the answer is held to the whole schema; see *Structured output*. Default: `false`.",
);

export const parameters = jsonSchemaField("The JSON Schema of the arguments, an object.")
  .nullish()
  .describe("The JSON Schema of the arguments, an object. Default: no arguments.");

export const imageUrl = z
  .string()
  .describe("A URL of the form `data:<type>;base64,<data>`: PNG, JPEG, GIF or WebP. Others are never fetched.");

export const imageDetail = z
  .enum(["auto", "low", "high", "original"])
  .nullish()
  .describe("How finely to look; `original` is `high`. Default: `auto`.");

export const schemaName = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters out of letters, digits, '_' and '-'.")
  .describe("The name of the schema.");

/** A part of a reply as its schema describes it. */
export type Written<Schema extends z.ZodType> = Unchanged<z.infer<Schema>>;

type Unchanged<Value> = Value extends object ? { readonly [Key in keyof Value]: Unchanged<Value[Key]> } : Value;

export function temperatureUpTo(most: number) {
  return optional(
    z.number().min(0).max(most),
    "The randomness of the answer; at 0 the likeliest token is always taken. Default: the model's own.",
  );
}

export const topP = optional(
  z.number().min(0).max(1),
  "The share of probability to choose from, likeliest tokens first. Default: the model's own.",
);

const penalty = z.number().min(-2).max(2).nullish();

export const frequencyPenalty = penalty.describe(
  "Lowers the odds of a token by each time it has been written already. Default: 0, unless the engine has its own.",
);

export const presencePenalty = penalty.describe(
  "Lowers the odds of a token once it has been written already. Default: 0, unless the engine has its own.",
);

/** Models have three levels, to which the efforts between and beyond them are mapped. */
export const EFFORTS = {
  none: ReasoningEffort.UNSPECIFIED,
  minimal: ReasoningEffort.LOW,
  low: ReasoningEffort.LOW,
  medium: ReasoningEffort.MEDIUM,
  high: ReasoningEffort.HIGH,
  xhigh: ReasoningEffort.HIGH,
  max: ReasoningEffort.HIGH,
  ultra: ReasoningEffort.HIGH,
} as const satisfies Readonly<Record<string, ReasoningEffort>>;

export type Effort = keyof typeof EFFORTS;

export const effort = z.enum(Object.keys(EFFORTS) as Effort[]);

/** The effort of chat and responses. */
export const reasoningEffort = effort
  .nullish()
  .describe(
    "How much to reason: `none` switches reasoning off, `minimal` is `low`, and `xhigh`, `max` and `ultra` are `high`. Default: the model's own.",
  );

export function reasoningOfEffort(word: Effort): Reasoning {
  return { mode: word === "none" ? ReasoningMode.DISABLED : ReasoningMode.ENABLED, effort: EFFORTS[word] };
}

export const MAX_CACHE_KEY_LENGTH = 512;

export const promptCacheKey = optional(
  z.string().max(MAX_CACHE_KEY_LENGTH),
  "A text that requests with a common beginning share, so that they meet the same cache. At most 512 characters.",
);

export function cacheTtl(name: string): Duration | undefined {
  const seconds = TTL_SECONDS.get(name);
  return seconds === undefined ? undefined : { seconds, nanos: 0 };
}

/** The lifetimes of chat and responses, in seconds. */
const OPTION_TTLS = { "30m": 1_800, "12h": 43_200 } as const;

const optionTtl = z.enum(Object.keys(OPTION_TTLS) as (keyof typeof OPTION_TTLS)[]).nullish();

export const promptCacheBreakpoint = named("PromptCacheBreakpoint", "The end of a reusable beginning of the prompt.", {
  mode: withoutEffect("The format's own word, `explicit`."),
  ttl: optionTtl.describe("How long the beginning is worth keeping. Default: `ttl` of `prompt_cache_options`."),
})
  .nullish()
  .describe("A mark that a reusable beginning of the prompt ends with this part.");

/** The fields of `prompt_cache_options` in chat and responses. */
export const promptCacheOptions = {
  ttl: optionTtl.describe("How long the prompt is worth keeping. It is a hint. Default: the node's own time."),
  prewarm: flag.describe("Whether the prompt is read into the cache without an answer. Default: `false`."),
  mode: withoutEffect("Accepted without effect: the beginning of every prompt is cached."),
} as const;

export const promptCacheRetention = unchecked(z.string().nullish()).describe(
  "`24h` keeps the prompt for that long where `prompt_cache_options` says no time, as a hint; any other value is the default.",
);

type CacheOptions = { readonly ttl?: keyof typeof OPTION_TTLS | null | undefined } | null | undefined;

/** Returns how long a prompt of chat or responses is to be kept; undefined for the node's own time. */
export function promptCacheTtl(options: CacheOptions, retention: unknown): Duration | undefined {
  if (options?.ttl) return { seconds: OPTION_TTLS[options.ttl], nanos: 0 };
  return retention === "24h" ? cacheTtl(retention) : undefined;
}

/** Returns the mark of a checked `prompt_cache_breakpoint`, if any. */
export function partBreakpoint(mark: CacheOptions): CacheBreakpoint | undefined {
  return mark ? { ttl: promptCacheTtl(mark, undefined) } : undefined;
}

/**
 * Reads a `cache_control`: the end of a reusable prefix, kept for `ttl` or the node's default. A hint is never refused:
 * a value that is not an object marks nothing, and an unknown `ttl` means the default.
 */
export function cacheBreakpoint(value: unknown): CacheBreakpoint | undefined {
  if (!isJsonObject(value)) return undefined;
  const ttl = value.ttl;
  return { ttl: typeof ttl === "string" ? cacheTtl(ttl) : undefined };
}

export const MAX_STOP_STRINGS = 16;

/** The most characters of one: each is searched in every delta. */
export const MAX_STOP_LENGTH = 1_024;

export const stopText = z.string().max(MAX_STOP_LENGTH);

/** The refusal of fields that keep an answer from ending. */
export const FOR_LOAD_TESTS = "Only keys for load tests may set it ('keys create --load-tests').";

export const MAX_MESSAGES = 100_000;

export const MAX_LOGIT_BIAS = 1_024;

/** Returns a budget of reasoning that leaves part of an answer visible; undefined, it is unlimited. */
export function reasoningBudget(tokens: number, maxOutputTokens = Number.POSITIVE_INFINITY): number {
  return Math.max(1, Math.min(tokens, maxOutputTokens - 1));
}

/** Empty strings are dropped, as they would end every answer at once. */
export function stopStrings(value: string | readonly string[] | null | undefined): readonly string[] {
  return [value ?? []].flat().filter((text) => text !== "");
}
