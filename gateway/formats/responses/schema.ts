import * as z from "zod";
import type { FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
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

/*
 * The top level of the request ("Request of responses" in formats/README.md). It is closed: a key that is not here is
 * refused, as this format promises that nothing is ignored. Null is absent, everywhere. What differs by a tag (`input`,
 * `tools`, `tool_choice`, `text.format`) is only passed through here and walked by hand elsewhere.
 */

const summary = z.enum(["auto", "concise", "detailed"]).nullish();

const responsesBody = z.strictObject({
  model: z.unknown().optional(),
  input: z.unknown().optional(),
  instructions: z.string().nullish(),
  stream: z.boolean().nullish(),
  max_output_tokens: z.int().min(1).nullish(),
  tools: z.unknown().optional(),
  tool_choice: z.unknown().optional(),
  parallel_tool_calls: z.boolean().nullish(),
  text: z.object({ format: z.unknown().optional(), verbosity: z.enum(["low", "medium", "high"]).nullish() }).nullish(),
  reasoning: z
    .object({
      effort: z.string().nullish(),
      summary,
      generate_summary: summary,
      context: z.unknown().optional(),
      mode: z.unknown().optional(),
    })
    .nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  include: z.array(z.string()).nullish(),
  metadata: z.unknown().optional(),
  prompt_cache_key: z.string().nullish(),
  prompt_cache_retention: z.string().nullish(),
  prompt_cache_options: z.unknown().optional(),
  safety_identifier: z.string().nullish(),
  user: z.string().nullish(),
  client_metadata: z.unknown().optional(),
  store: z.unknown().optional(),
  background: z.unknown().optional(),
  previous_response_id: z.unknown().optional(),
  conversation: z.unknown().optional(),
  prompt: z.unknown().optional(),
  moderation: z.unknown().optional(),
  context_management: z.unknown().optional(),
  truncation: z.unknown().optional(),
  service_tier: z.unknown().optional(),
  stream_options: z.object({ include_obfuscation: z.unknown().optional() }).nullish(),
  max_tool_calls: z.unknown().optional(),
  frequency_penalty: z.unknown().optional(),
  presence_penalty: z.unknown().optional(),
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
  { path: ["service_tier"], allowed: ["auto", "default"], explanation: "Supported values are: 'auto', 'default'." },
  { path: ["stream_options", "include_obfuscation"], allowed: [false], explanation: "Only false is supported." },
  { path: ["max_tool_calls"], allowed: [], explanation: "It limits hosted tools, and there are none." },
  { path: ["frequency_penalty"], allowed: [0], explanation: "Only 0 is supported." },
  { path: ["presence_penalty"], allowed: [0], explanation: "Only 0 is supported." },
  {
    path: ["reasoning", "context"],
    allowed: ["auto", "current_turn", "all_turns"],
    explanation: "Supported values are: 'auto', 'current_turn', 'all_turns'.",
  },
  { path: ["reasoning", "mode"], allowed: ["standard"], explanation: "Only 'standard' is supported." },
];

/** The most bytes of all keys and values of `client_metadata` together. */
const MAX_CLIENT_METADATA_BYTES = 16 * 1024;

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
  checkLength(result.data.prompt_cache_key ?? "", 512, ["prompt_cache_key"]);
  return result.data;
}

/** Reads `metadata`, at most 16 pairs of strings. A key of it never stands in a path, as the caller invented it. */
export function metadataOf(value: unknown): Readonly<Record<string, string>> {
  const path = ["metadata"];
  const pairs = stringPairs(value, path);
  if (pairs.length > 16) throw tooMany(path, 16);
  for (const [key, text] of pairs) {
    checkLength(key, 64, path);
    checkLength(text, 512, path);
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
