import * as z from "zod";
import type { FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { MAX_CACHE_KEY_LENGTH } from "../cache-control.ts";
import {
  fromZod,
  missing,
  tooLong,
  tooMany,
  unsupportedParameter,
  unsupportedValue,
  wrongType,
} from "../field-error.ts";
import { requestBody } from "../request-body.ts";
import { frequencyPenalty, presencePenalty, temperatureUpTo, topP } from "../sampling-fields.ts";

/*
 * The plain fields of the request ("Request of responses" in formats/README.md). The top level and the objects in it are
 * closed: a key that is not here is refused, as this format promises that nothing is ignored. Null is absent,
 * everywhere. What differs by a tag (`input`, `tools`, `tool_choice`, `text.format`) is only passed through here and
 * walked by hand elsewhere.
 */

const summary = z.enum(["auto", "concise", "detailed"]).nullish();

/** The schema of the top level of a body. */
export const responsesBody = z.strictObject({
  model: z.unknown().optional().describe("The id of the model. `svc/glm53` and `svc/svc-glm53` mean `svc-glm53` here."),
  input: z.unknown().optional().describe("The text of the user, or the whole conversation so far as items."),
  instructions: z.string().nullish().describe("The first system text of the prompt."),
  stream: z.boolean().nullish().describe("Whether the answer comes as typed server-sent events. Default: `false`."),
  max_output_tokens: z
    .int()
    .min(1)
    .nullish()
    .describe(
      "The most tokens of the answer, those of reasoning included. More than the window has room for is cut to that. Default: what is left of the window.",
    ),
  tools: z.unknown().optional().describe("The caller's own function tools, and namespaces of them."),
  tool_choice: z.unknown().optional().describe("Whether and which tool the model calls. Default: `auto`."),
  parallel_tool_calls: z
    .boolean()
    .nullish()
    .describe("Whether one answer may hold more than one function call. Default: `true`."),
  text: z
    .strictObject({
      format: z.unknown().optional().describe("The form of the answer's text. Default: free text."),
      verbosity: z.enum(["low", "medium", "high"]).nullish().describe("Accepted without effect."),
    })
    .nullish()
    .describe("What the text of the answer is like."),
  reasoning: z
    .strictObject({
      effort: z
        .string()
        .nullish()
        .describe(
          "How much to reason: `none` switches reasoning off, `minimal` is `low`, and `xhigh` and `max` are `high`. Default: the model's own.",
        ),
      summary: summary.describe(
        "Any value asks for the reasoning in the reply, as a summary; the reasoning itself stands in it.",
      ),
      generate_summary: summary.describe("The older name of `summary`."),
      context: z.unknown().optional().describe("Accepted without effect: `auto`, `current_turn` or `all_turns`."),
      mode: z.unknown().optional().describe("Only `standard` is supported, which changes nothing."),
    })
    .nullish()
    .describe("Whether and how much the model reasons, and what of it is shown."),
  temperature: temperatureUpTo(2),
  top_p: topP,
  frequency_penalty: frequencyPenalty,
  presence_penalty: presencePenalty,
  top_logprobs: z
    .int()
    .min(0)
    .max(20)
    .nullish()
    .describe("The number of likeliest tokens to list at each place of the text, with their log probabilities."),
  include: z
    .array(z.string())
    .nullish()
    .describe("What the reply holds besides: sealed reasoning to send back, or log probabilities."),
  metadata: z.unknown().optional().describe("Pairs of strings that are repeated in the reply, at most 16."),
  prompt_cache_key: z
    .string()
    .nullish()
    .describe(
      "A text that requests with a common beginning share, so that they meet the same cache. At most 512 characters.",
    ),
  prompt_cache_retention: z.string().nullish().describe("Repeated in the reply, without effect."),
  prompt_cache_options: z.unknown().optional().describe("Accepted without effect."),
  safety_identifier: z.string().nullish().describe("Repeated in the reply, without effect."),
  user: z.string().nullish().describe("Repeated in the reply, without effect."),
  client_metadata: z
    .unknown()
    .optional()
    .describe("Pairs of strings for the caller's own use, checked and dropped. At most 16 KiB together."),
  store: z.unknown().optional().describe("Only `false` is supported: nothing is stored."),
  background: z.unknown().optional().describe("Only `false` is supported."),
  previous_response_id: z.unknown().optional().describe("Refused, as nothing is stored: send the whole conversation."),
  conversation: z.unknown().optional().describe("Refused, as nothing is stored: send the whole conversation."),
  prompt: z.unknown().optional().describe("Refused, as no prompts are stored."),
  moderation: z.unknown().optional().describe("Refused."),
  context_management: z.unknown().optional().describe("Refused unless it is an empty list."),
  truncation: z.unknown().optional().describe("Only `disabled` is supported: input is never cut."),
  service_tier: z.string().nullish().describe("Accepted without effect: there is one tier. The reply says `default`."),
  stream_options: z
    .strictObject({
      include_obfuscation: z
        .boolean()
        .nullish()
        .describe(
          "Whether each delta is padded to a multiple of 32 bytes, so that its size tells little of its text. Default: `false`.",
        ),
    })
    .nullish()
    .describe("What a stream holds beside the answer."),
  max_tool_calls: z
    .int()
    .min(1)
    .nullish()
    .describe("Repeated in the reply, without effect: it limits hosted tools, and there are none."),
});

/** The top level of a checked body. */
export type ResponsesBody = z.infer<typeof responsesBody>;

/** A field that changes nothing here: `allowed` are its values besides null. */
type Neutral = { readonly path: FieldPath; readonly allowed: readonly unknown[]; readonly explanation: string };

const STATELESS = "Nothing is kept between requests: send the whole conversation in 'input'.";

const NEUTRAL: readonly Neutral[] = [
  { path: ["store"], allowed: [false], explanation: "Responses are never stored: only false is supported." },
  {
    path: ["background"],
    allowed: [false],
    explanation: "Responses do not run in the background: only false is supported.",
  },
  { path: ["previous_response_id"], allowed: [], explanation: STATELESS },
  { path: ["conversation"], allowed: [], explanation: STATELESS },
  {
    path: ["prompt"],
    allowed: [],
    explanation: "No prompts are stored: send their text in 'instructions' or 'input'.",
  },
  { path: ["moderation"], allowed: [], explanation: "" },
  { path: ["context_management"], allowed: [], explanation: "" },
  { path: ["truncation"], allowed: ["disabled"], explanation: "Input is never cut: only 'disabled' is supported." },
  {
    path: ["reasoning", "context"],
    allowed: ["auto", "current_turn", "all_turns"],
    explanation: "Supported values are: 'auto', 'current_turn', 'all_turns'.",
  },
  { path: ["reasoning", "mode"], allowed: ["standard"], explanation: "Only 'standard' is supported." },
];

/** The most bytes of all keys and values of `client_metadata` together. */
export const MAX_CLIENT_METADATA_BYTES = 16 * 1024;

/**
 * Checks the top level of a body. Throws `ApiError` for the first field at fault; a missing `model` or `input` comes
 * first.
 */
export function checkBody(value: unknown): ResponsesBody {
  const body = requestBody(value);
  for (const key of ["model", "input"]) if (body[key] === undefined || body[key] === null) throw missing([key]);
  const result = responsesBody.safeParse(body);
  if (!result.success) throw fromZod(result.error, body);
  for (const rule of NEUTRAL) checkNeutral(body, rule);
  checkClientMetadata(result.data.client_metadata);
  checkLength(result.data.prompt_cache_key ?? "", MAX_CACHE_KEY_LENGTH, ["prompt_cache_key"]);
  return result.data;
}

/** The most pairs of `metadata`, and the most characters of a key and of a value. */
export const MAX_METADATA = { pairs: 16, keyLength: 64, valueLength: 512 } as const;

/** Reads `metadata`, pairs of strings within `MAX_METADATA`. A key of it never stands in a path, as the caller invented it. */
export function metadataOf(value: unknown): Readonly<Record<string, string>> {
  const path = ["metadata"];
  const pairs = stringPairs(value, path);
  if (pairs.length > MAX_METADATA.pairs) throw tooMany(path, MAX_METADATA.pairs);
  for (const [key, text] of pairs) {
    checkLength(key, MAX_METADATA.keyLength, path);
    checkLength(text, MAX_METADATA.valueLength, path);
  }
  return Object.fromEntries(pairs);
}

/** Throws `ApiError` for a text of more than `limit` characters; one may take two units of a string's length. */
function checkLength(text: string, limit: number, path: FieldPath): void {
  if (text.length > limit && (text.length > 2 * limit || [...text].length > limit)) throw tooLong(path, limit);
}

function checkNeutral(body: JsonObject, { path, allowed, explanation }: Neutral): void {
  const value = path.reduce<unknown>((at, step) => (isJsonObject(at) ? at[step] : undefined), body) ?? null;
  if (value === null || allowed.includes(value)) return;
  if (path[0] === "context_management" && Array.isArray(value) && value.length === 0) return;
  throw allowed.length === 0 ? unsupportedParameter(path, explanation) : unsupportedValue(path, explanation);
}

function checkClientMetadata(value: unknown): void {
  const path = ["client_metadata"];
  const bytes = stringPairs(value, path)
    .flat()
    .reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  if (bytes > MAX_CLIENT_METADATA_BYTES) throw tooLong(path, MAX_CLIENT_METADATA_BYTES);
}

function stringPairs(value: unknown, path: FieldPath): readonly (readonly [string, string])[] {
  if (value === undefined || value === null) return [];
  if (!isJsonObject(value)) throw wrongType(path, "an object of strings", value);
  return Object.entries(value).map(([key, text]) => {
    if (typeof text !== "string") throw wrongType(path, "an object of strings", text);
    return [key, text] as const;
  });
}
