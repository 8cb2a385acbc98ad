import * as z from "zod";
import type { FieldPath } from "../../errors.ts";
import { isJsonObject } from "../../json/json-text.ts";
import { checked, isLonger, unchecked } from "../checked.ts";
import { missing, tooLong, tooMany, unsupportedParameter, unsupportedValue, wrongType } from "../field-error.ts";
import {
  closed,
  frequencyPenalty,
  imageDetail,
  imageUrl,
  inert,
  jsonSchemaField,
  named,
  optional,
  presencePenalty,
  promptCacheBreakpoint,
  promptCacheKey,
  promptCacheOptions,
  reasoningEffort,
  schemaName,
  strictAnswer,
  tag,
  temperatureUpTo,
  topP,
} from "../fields.ts";
import { ignored, requestBody, type UntakenField } from "../request-body.ts";
import { MAX_TOOLS } from "../tools.ts";
import { callerTools, searchCallItem, searchOutputItem, toolChoiceSchema, toolsItem } from "./tool-schema.ts";
import {
  localShellCallItem,
  localShellOutputItem,
  patchCallItem,
  patchOutputItem,
  shellCallItem,
  shellOutputItem,
} from "./vendor-tools.ts";

/*
 * The body of `POST /v1/responses`: these schemas check requests, and `GET /openapi.json` has them. The top level and
 * its objects are closed, as this format promises to ignore nothing; items, their parts and tools are open and read in
 * code, as they differ by more than their type. Null in an optional field means that it is absent.
 */

export const MAX_ITEMS = 100_000;

export const SEALED_REASONING = "reasoning.encrypted_content";

export const LOGPROBS = "message.output_text.logprobs";

const STATELESS = "Nothing is kept between requests: send the whole conversation in 'input'.";

export const inputText = named("InputTextPart", "A part of text. Either word for text is taken in every role.", {
  type: z.enum(["input_text", "output_text"]).describe("`input_text` or `output_text`."),
  text: z.string().describe("The text."),
  prompt_cache_breakpoint: promptCacheBreakpoint,
});

export const inputImage = named(
  "InputImagePart",
  "An image, in user messages and outputs, for models that take images.",
  {
    type: tag("input_image"),
    image_url: imageUrl,
    detail: imageDetail,
    prompt_cache_breakpoint: promptCacheBreakpoint,
  },
);

export const refusalPart = named("RefusalPart", "A refusal of an earlier answer.", {
  type: tag("refusal"),
  refusal: z.string().describe("The text of the refusal."),
});

const content = z.union(
  [z.string(), z.array(unchecked(z.discriminatedUnion("type", [inputText, inputImage, refusalPart])))],
  "a string or an array of content parts",
);

export const messageItem = named("InputMessageItem", "A message.", {
  type: z.literal("message").optional().describe("`message`, which may be left out."),
  role: z
    .enum(["user", "assistant", "system", "developer"])
    .describe("Whose message it is. `developer` is another word for `system`."),
  content: content.describe("The content: a text or parts."),
});

export const callItem = named(
  "InputFunctionCall",
  "A function call of an earlier answer. Each needs its output behind it.",
  {
    type: tag("function_call"),
    call_id: z.string().min(1).describe("The id of the call."),
    name: z.string().min(1).describe("The name of the function."),
    arguments: z.string().describe("The arguments as JSON text."),
    namespace: z.string().nullish().describe("The namespace of the function, where it was declared in one."),
  },
);

export const outputItem = named("FunctionCallOutput", "The result of a call.", {
  type: z
    .enum(["function_call_output", "custom_tool_call_output"])
    .describe("`function_call_output`, or `custom_tool_call_output` of a `custom` tool."),
  call_id: z.string().min(1).describe("The id of the call, which stands before."),
  output: content.describe("What the tool gave: a text or parts."),
});

export const customCallItem = named("InputCustomToolCall", "A call of a `custom` tool in an earlier answer.", {
  type: tag("custom_tool_call"),
  call_id: z.string().min(1).describe("The id of the call."),
  name: z.string().min(1).describe("The name of the tool."),
  input: z.string().describe("The text for the tool."),
  namespace: z.string().nullish().describe("The namespace of the tool, where it was declared in one."),
});

const reasoningItem = named(
  "InputReasoning",
  "Reasoning of an earlier answer, as it was. Of its three texts the first one that is there and can be read counts; nothing in it is an error.",
  {
    type: tag("reasoning"),
    encrypted_content: optional(
      z.string(),
      "The sealed reasoning of an earlier reply for the same key's owner and model.",
    ),
    content: z
      .array(
        named("ReasoningTextPart", "A part of reasoning.", {
          type: tag("reasoning_text"),
          text: z.string().describe("The text."),
        }),
      )
      .nullish()
      .describe("The reasoning as text."),
    summary: z
      .array(
        named("SummaryTextPart", "A part of a summary.", {
          type: tag("summary_text"),
          text: z.string().describe("The text."),
        }),
      )
      .nullish()
      .describe("The reasoning as a summary."),
  },
);

export const compactionItem = named(
  "InputCompaction",
  "A compaction of an earlier reply, in place of what it summarises. One that does not open is an error.",
  {
    type: tag("compaction"),
    encrypted_content: z.string().min(1).describe("The sealed summary of an earlier reply for the same key's owner."),
  },
);

const triggerItem = named("CompactionTrigger", "Asks for a summary of all before it, as the last item.", {
  type: tag("compaction_trigger"),
});

const textFormatSchema = z.discriminatedUnion("type", [
  closed("TextFormat", "Free text.", { type: tag("text") }),
  closed("JsonFormat", "One JSON object.", { type: tag("json_object") }),
  closed("SchemaFormat", "JSON that holds to a schema.", {
    type: tag("json_schema"),
    name: schemaName,
    schema: jsonSchemaField("The JSON Schema of the answer."),
    strict: strictAnswer,
    description: z.string().nullish().describe("What the schema is for; repeated in the reply."),
  }),
]);

const inputItem = z.union([
  messageItem,
  callItem,
  customCallItem,
  searchCallItem,
  outputItem,
  searchOutputItem,
  toolsItem,
  shellCallItem,
  shellOutputItem,
  localShellCallItem,
  localShellOutputItem,
  patchCallItem,
  patchOutputItem,
  reasoningItem,
  compactionItem,
  triggerItem,
]);

const textPairs = z.record(z.string(), z.string()).nullish();

const summary = z.enum(["auto", "concise", "detailed"]).nullish();

/** The body of a request. Its top level accepts no other key. */
export const responsesRequest = closed(
  "ResponsesRequest",
  "The body of a request for a response. Unknown keys are refused.",
  {
    model: z.string().describe("The id of the model. `svc/glm53` and `svc/svc-glm53` mean `svc-glm53` here."),
    input: z
      .union([z.string(), z.array(unchecked(inputItem)).min(1).max(MAX_ITEMS)], "a string or an array of items")
      .describe("The text of the user, or the whole conversation so far as items."),
    instructions: z.string().nullish().describe("The first system text of the prompt."),
    stream: z.boolean().nullish().describe("Whether the answer comes as typed server-sent events. Default: `false`."),
    max_output_tokens: optional(
      z.int().min(1),
      "The most tokens of the answer, those of reasoning included. More than the window has room for is cut to that. Default: the rest of the window.",
    ),
    tools: optional(
      callerTools.max(MAX_TOOLS),
      "The caller's own tools, and namespaces of them. One that is declared twice is one tool.",
    ),
    tool_choice: unchecked(toolChoiceSchema).describe("Whether and which tool the model calls. Default: `auto`."),
    parallel_tool_calls: optional(
      z.boolean(),
      "Whether one answer may hold more than one function call. Default: `true`.",
    ),
    text: z
      .strictObject({
        format: textFormatSchema.nullish().describe("The form of the answer's text. Default: free text."),
        verbosity: z.enum(["low", "medium", "high"]).nullish().describe("Accepted without effect."),
      })
      .nullish()
      .describe("What the text of the answer is like."),
    reasoning: z
      .strictObject({
        effort: reasoningEffort,
        summary: summary.describe(
          "Any value asks for the reasoning in the reply, as a summary; the reasoning itself stands in it.",
        ),
        generate_summary: summary.describe("The older name of `summary`."),
        context: inert(
          z
            .enum(["auto", "current_turn", "all_turns"], "Supported values are: 'auto', 'current_turn', 'all_turns'.")
            .nullish(),
          "Accepted without effect: `auto`, `current_turn` or `all_turns`.",
        ),
        mode: inert(
          z.enum(["standard", "pro"], "Supported values are: 'standard', 'pro'.").nullish(),
          "Accepted without effect, `standard` or `pro`: how much to reason is the `effort`.",
        ),
      })
      .nullish()
      .describe("Whether and how much the model reasons, and what of it is shown."),
    temperature: temperatureUpTo(2),
    top_p: topP,
    frequency_penalty: frequencyPenalty,
    presence_penalty: presencePenalty,
    top_logprobs: optional(
      z.int().min(0).max(20),
      "Number of likeliest tokens to list at each place of the text, with their log probabilities.",
    ),
    include: optional(
      z.array(z.string().meta({ enum: [SEALED_REASONING, LOGPROBS] })),
      "What the reply holds besides: sealed reasoning to send back, or log probabilities.",
    ),
    metadata: unchecked(textPairs).describe("Pairs of strings that are repeated in the reply, at most 16."),
    prompt_cache_key: promptCacheKey,
    prompt_cache_options: z
      .strictObject({
        ...promptCacheOptions,
        comparison_response_id: optional(
          z.string(),
          "Any id asks for `prompt_cache_diagnostics` in the reply: it compares with the conversation so far, as far as it is known.",
        ),
      })
      .nullish()
      .describe("How the prompt is cached."),
    prompt_cache_retention: z
      .string()
      .nullish()
      .describe("As `24h` the time for which to keep the prompt, where the options say none. Repeated in the reply."),
    safety_identifier: z.string().nullish().describe("Repeated in the reply, without effect."),
    user: z.string().nullish().describe("Repeated in the reply, without effect."),
    client_metadata: unchecked(textPairs).describe(
      "Pairs of strings for the caller's own use, checked and dropped, but for `x-codex-turn-metadata`, whose kind of request lowers the priority. At most 16 KiB together.",
    ),
    store: optional(
      z.literal(false, "Responses are never stored: only false is supported."),
      "Only `false` is supported: nothing is stored.",
    ),
    background: optional(
      z.literal(false, "Responses do not run in the background: only false is supported."),
      "Only `false` is supported.",
    ),
    previous_response_id: z
      .null(STATELESS)
      .optional()
      .describe("Refused over HTTP, as nothing is stored: send the whole conversation."),
    conversation: z
      .null(STATELESS)
      .optional()
      .describe("Refused over HTTP, as nothing is stored: send the whole conversation."),
    prompt: z
      .null("No prompts are stored: send their text in 'instructions' or 'input'.")
      .optional()
      .describe("Refused, as no prompts are stored."),
    moderation: z.null().optional().describe("Refused."),
    access_programs: z.null().optional().describe("Refused: the vendor's programs of access are not known here."),
    background_options: z
      .null("Responses do not run in the background.")
      .optional()
      .describe("Refused, as responses do not run in the background."),
    multi_agent: z
      .null("One agent answers: the caller runs the others.")
      .optional()
      .describe("Refused, as one agent answers."),
    image: z
      .strictObject({
        context_compression: inert(
          z.enum(["auto", "disabled"]).nullish(),
          "`auto` or `disabled`, which change nothing: images reach the engine as they are.",
        ),
      })
      .nullish()
      .describe("The handling of images."),
    context_management: unchecked(z.array(z.unknown()).max(0).nullish()).describe(
      "Refused unless it is an empty list.",
    ),
    truncation: optional(
      z.literal("disabled", "Input is never cut: only 'disabled' is supported."),
      "Only `disabled` is supported: input is never cut.",
    ),
    service_tier: optional(z.string(), "Accepted without effect: there is one tier. The reply says `default`."),
    stream_options: z
      .strictObject({
        include_obfuscation: optional(
          z.boolean(),
          "Whether each delta is padded to a multiple of 32 bytes, so that its size reveals little of its text. Default: `false`.",
        ),
        reasoning_summary_delivery: inert(
          z.literal("sequential_cutoff", "Only 'sequential_cutoff' is supported.").nullish(),
          "Only `sequential_cutoff`, which changes nothing: reasoning always comes whole before what follows it.",
        ),
      })
      .nullish()
      .describe("What a stream holds beside the answer."),
    max_tool_calls: optional(
      z.int().min(1),
      "Repeated in the reply, without effect: it limits hosted tools, and there are none.",
    ),
  },
);

export type ResponsesBody = z.infer<typeof responsesRequest>;

/** The most bytes of all keys and values of `client_metadata` together. */
export const MAX_CLIENT_METADATA_BYTES = 16 * 1024;

export function checkBody(value: unknown): ResponsesBody {
  const raw = requestBody(value);
  if (raw.input === null) throw missing(["input"]);
  const body = checked(responsesRequest, raw);
  const { context_management: management, client_metadata, include } = body;
  if (include?.some((value) => value !== SEALED_REASONING && value !== LOGPROBS))
    throw unsupportedValue(["include"], `Supported values are: '${SEALED_REASONING}', '${LOGPROBS}'.`);
  const isEmpty = Array.isArray(management) && management.length === 0;
  if (management !== undefined && management !== null && !isEmpty)
    throw unsupportedParameter(["context_management"], "");
  checkClientMetadata(client_metadata);
  return body;
}

/** The most pairs of `metadata`, and the most characters of a key and of a value. */
export const MAX_METADATA = { pairs: 16, keyLength: 64, valueLength: 512 } as const;

/** Paths never contain the keys, as the caller invented them. */
export function metadataOf(value: unknown): Readonly<Record<string, string>> {
  const path = ["metadata"];
  const pairs = stringPairs(value, path);
  if (pairs.length > MAX_METADATA.pairs) throw tooMany(path, MAX_METADATA.pairs);
  for (const [key, text] of pairs) {
    if (isLonger(key, MAX_METADATA.keyLength)) throw tooLong(path, MAX_METADATA.keyLength);
    if (isLonger(text, MAX_METADATA.valueLength)) throw tooLong(path, MAX_METADATA.valueLength);
  }
  return Object.fromEntries(pairs);
}

/** Returns what Codex says of its turn, in its own JSON; undefined if the request has none. */
export function turnMetadataOf({ client_metadata: pairs }: ResponsesBody): string | undefined {
  return isJsonObject(pairs) ? String(pairs["x-codex-turn-metadata"] ?? "") : undefined;
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

/** The fields that are taken without effect. At the top level and in options, others are unknown and so refused. */
export const RESPONSES_UNTAKEN: readonly UntakenField[] = [
  ...ignored("The beginning of every prompt is cached.", ["prompt_cache_options.mode"]),
  ...ignored("There is one tier, which the reply names.", ["service_tier"]),
  ...ignored("It is a hint, which no model here knows.", ["text.verbosity"]),
  ...ignored("The template decides which reasoning the model reads again.", ["reasoning.context"]),
  ...ignored("How much to reason is the `effort`.", ["reasoning.mode"]),
  ...ignored("An item means what its content says.", ["input[].id", "input[].status", "input[].phase"]),
  ...ignored("Calls are the model's own, and one agent answers.", ["input[].caller", "input[].agent"]),
  ...ignored("No model here writes them.", ["input[].action.env", "input[].action.user"]),
  ...ignored("Each call has its output in the next request.", [
    "input[].async",
    "tools[].async",
    "input[].tools[].async",
  ]),
  ...ignored("They say nothing to the model.", ["input[].content[].annotations", "input[].content[].logprobs"]),
  ...ignored("A text stands in the place of a file, but for the user's own in the last item, which is refused.", [
    ...["file_data", "file_url", "filename"].map((field) => `input[].content[].${field}`),
  ]),
  ...ignored("The model writes arguments, and reads outputs as they are.", [
    "tools[].output_schema",
    "input[].tools[].output_schema",
  ]),
];
