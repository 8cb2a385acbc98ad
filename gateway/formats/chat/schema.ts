import * as z from "zod";
import { unchecked } from "../checked.ts";
import {
  CACHE_TTLS,
  cacheControl,
  effort,
  flag,
  frequencyPenalty,
  imageDetail,
  imageUrl,
  inert,
  jsonSchemaField,
  MAX_LOGIT_BIAS,
  MAX_MESSAGES,
  MAX_STOP_LENGTH,
  MAX_STOP_STRINGS,
  modelId,
  named,
  optional,
  parameters,
  presencePenalty,
  promptCacheBreakpoint,
  promptCacheKey,
  promptCacheOptions,
  promptCacheRetention,
  reasoningEffort,
  schemaName,
  stopText,
  stream,
  strictAnswer,
  strictTool,
  tag,
  temperatureUpTo,
  topP,
  withoutEffect,
} from "../fields.ts";
import { ignored, refused, type UntakenField } from "../request-body.ts";
import { MAX_TOOLS, toolName } from "../tools.ts";

/*
 * The body of `POST /v1/chat/completions`: these schemas check requests and generate the documentation. Null in an
 * optional field means that it is absent. Schemas are open: unlisted fields are ignored ("Openness" in
 * formats/README.md). Messages are read in code, as their fields depend on the role.
 */

const tokens = z.int().min(1).nullish();
const open = <Shape extends z.ZodRawShape>(shape: Shape) => z.looseObject(shape).nullish();

export const chatParts = {
  text: named("ChatTextPart", "A part of text, in messages of any role.", {
    type: tag("text"),
    text: z.string().describe("The text."),
    cache_control: cacheControl,
    prompt_cache_breakpoint: promptCacheBreakpoint,
  }),
  image_url: named(
    "ChatImagePart",
    "An image, in messages of the roles `user` and `tool` and for models that take images.",
    {
      type: tag("image_url"),
      image_url: named("ChatImage", "An image as data.", {
        url: imageUrl,
        detail: imageDetail,
      }),
      cache_control: cacheControl,
      prompt_cache_breakpoint: promptCacheBreakpoint,
    },
  ),
  refusal: named("ChatRefusalPart", "A refusal, in messages of the role `assistant`.", {
    type: tag("refusal"),
    refusal: z.string().describe("The text of the refusal."),
    cache_control: cacheControl,
  }),
} as const;

const functionCall = named("ChatFunctionCall", "The function that a call names, and its arguments.", {
  name: z.string().describe("The name of the function."),
  arguments: z.string().describe("The arguments as JSON text. In a history, text that is not JSON is taken as it is."),
});

export const chatToolCall = named("ChatToolCall", "A tool call.", {
  id: z.string().describe("The id of the call, which the message with its result names. Unique within the message."),
  type: tag("function", "Only calls of the type 'function' are supported."),
  function: functionCall,
});

/** Only the fields of its role are checked. */
export const chatMessage = named("ChatMessage", "A message of the conversation.", {
  role: z
    .enum(["system", "developer", "user", "assistant", "tool"])
    .describe("Whose message it is. `developer` is another word for `system`."),
  content: z
    .union([
      z.string(),
      z.array(z.discriminatedUnion("type", [chatParts.text, chatParts.image_url, chatParts.refusal])),
    ])
    .nullish()
    .describe("The content: a text or a list of parts. Null and absent are an empty text."),
  name: z.string().nullish().describe("The name of the speaker, where the model's template has a place for one."),
  tool_calls: optional(
    z.array(chatToolCall, "an array of tool calls"),
    "The calls of an `assistant` message. Each needs its `tool` message before anything else is said.",
  ),
  tool_call_id: optional(
    z.string(),
    "The id of the call that a `tool` message is the result of. Required with the role `tool`.",
  ),
  reasoning_content: optional(z.string(), "The reasoning of an `assistant` message, as an earlier reply held it."),
  reasoning: z.string().nullish().describe("Another name of `reasoning_content`."),
  refusal: z.string().nullish().describe("A refusal of an `assistant` message, which reads as its text."),
  cache_control: cacheControl,
});

export const ONLY_FUNCTIONS = "Only tools of the type 'function' are supported.";

const tool = named("ChatTool", "A function that the model may call and the caller runs.", {
  type: tag("function", ONLY_FUNCTIONS),
  function: named("ChatFunction", "The definition of a function.", {
    name: toolName.describe("The name of the function."),
    description: z.string().nullish().describe("What the function does, for the model to read."),
    parameters,
    strict: strictTool,
    cache_control: cacheControl,
  }),
  cache_control: cacheControl,
});

const namedFunction = named("ChatNamedTool", "One function by its name.", {
  type: tag("function", ONLY_FUNCTIONS),
  function: named("ChatFunctionName", "The name of a function.", {
    name: z.string().describe("The name of a function in `tools`."),
  }),
});

const allowedTools = named("ChatAllowedTools", "Some of the functions by their names.", {
  type: tag("allowed_tools"),
  allowed_tools: named("ChatAllowedList", "The functions that may be called, and whether one must be.", {
    mode: z.enum(["auto", "required"]).describe("Whether the model may call one of them, or must."),
    tools: z.array(namedFunction, "an array of tools").min(1).max(MAX_TOOLS).describe("The functions."),
  }),
});

export const chatToolChoice = z
  .union([z.enum(["none", "auto", "required"]), namedFunction, allowedTools], "a string or an object")
  .nullish();

const responseFormat = z.discriminatedUnion("type", [
  named("ChatTextFormat", "Free text.", { type: tag("text") }),
  named("ChatJsonFormat", "One JSON object.", { type: tag("json_object") }),
  named("ChatSchemaFormat", "JSON that holds to a schema.", {
    type: tag("json_schema"),
    json_schema: named("ChatSchema", "The schema of an answer.", {
      name: schemaName,
      schema: jsonSchemaField("The JSON Schema of the answer."),
      strict: strictAnswer,
      description: withoutEffect("What the schema is for."),
    }),
  }),
]);

const thinkingSwitch = named("ChatThinking", "A switch for reasoning, as self-hosted stacks know it.", {
  type: z
    .enum(["enabled", "adaptive", "disabled"])
    .describe("`disabled` switches reasoning off, the others switch it on."),
  budget_tokens: optional(
    z.int().min(1),
    "The most tokens of reasoning, cut below the limit of the answer. Default: no limit of its own.",
  ),
});

const templateSwitches = named("ChatTemplateSwitches", "Switches for reasoning under their names in templates.", {
  enable_thinking: z.boolean().nullish().describe("Whether to reason."),
  thinking: z.boolean().nullish().describe("Another name of `enable_thinking`."),
});

export const chatRequest = named("ChatRequest", "The body of a request for a chat completion.", {
  model: modelId,
  messages: z
    .array(unchecked(chatMessage), "an array of messages")
    .min(1)
    .max(MAX_MESSAGES)
    .describe("The conversation so far."),
  stream,
  stream_options: open({
    include_usage: flag.describe("Whether a last chunk before `[DONE]` holds the usage. Default: `false`."),
    continuous_usage_stats: inert(flag, "Without effect, as load generators send it: the last chunk has the usage."),
  }).describe("What a stream holds beside the answer. It means nothing without `stream`."),
  max_tokens: tokens.describe(
    "The most tokens of the answer, those of reasoning included. More than the window has room for is cut to that. Default: the rest of the window.",
  ),
  max_completion_tokens: tokens.describe("The newer name of `max_tokens`; it wins where both are sent."),
  temperature: temperatureUpTo(2),
  top_p: topP,
  frequency_penalty: frequencyPenalty,
  presence_penalty: presencePenalty,
  repetition_penalty: optional(
    z.number().min(0.01).max(10),
    "A divisor of the odds of tokens that have occurred; 1 is neutral. Default: the model's own.",
  ),
  top_k: optional(
    z
      .int()
      .min(-1)
      .max(2 ** 31 - 1),
    "Number of likeliest tokens to choose from; 0 and -1 mean all. Default: the model's own.",
  ),
  min_p: optional(
    z.number().min(0).max(1),
    "The least probability of a token to be chosen, as a share of that of the likeliest one. Default: the model's own.",
  ),
  logprobs: flag.describe("Whether the log probabilities of the answer's tokens are returned. Default: `false`."),
  top_logprobs: optional(
    z.int().min(0).max(20),
    "Number of likeliest tokens to list at each place, with `logprobs`. Default: 0.",
  ),
  n: z.int().min(1).nullish().describe("Number of choices. Only 1 is supported."),
  parallel_tool_calls: flag.describe("Whether one answer may hold more than one tool call. Default: `true`."),
  modalities: z.array(z.string()).nullish().describe("The kinds of output. Only `text` is supported."),
  prompt_cache_key: promptCacheKey,
  prompt_cache_options: open(promptCacheOptions).describe("How the prompt is cached."),
  prompt_cache_retention: promptCacheRetention,
  cache_ttl: optional(
    z.enum(CACHE_TTLS),
    "How long the beginning of this prompt is worth keeping. It is a hint. Default: `prompt_cache_options.ttl`.",
  ),
  reasoning: open({
    effort: reasoningEffort,
    enabled: unchecked(flag).describe("Whether to reason; `false` wins over every effort and switch."),
    max_tokens: unchecked(z.int().min(1).nullish()).describe(
      "The most tokens of reasoning, cut below the limit of the answer. It switches reasoning on.",
    ),
  }).describe("Whether and how much the model reasons before it answers."),
  reasoning_effort: unchecked(effort.nullish()).describe("The same as `reasoning.effort`, which wins."),
  stop: optional(
    z.union([stopText, z.array(stopText).max(MAX_STOP_STRINGS)], "a string or an array of strings"),
    `Texts of at most ${MAX_STOP_LENGTH} characters that end the answer where they would occur; they are not part of it. Empty texts are left out.`,
  ),
  min_tokens: optional(
    z.int().min(0),
    "The least tokens of the answer. Above 0 for load tests only, by keys that were made for them.",
  ),
  ignore_eos: optional(
    z.boolean(),
    "Whether the answer has its full length, `max_tokens`. For load tests only, by keys that were made for them.",
  ),
  seed: unchecked(z.int().nullish()).describe(
    "A number that makes random choices repeatable, as far as the engine can. Any integer is taken.",
  ),
  logit_bias: unchecked(z.record(z.string(), z.number().min(-100).max(100)).nullish()).describe(
    `The bias added to the log odds of tokens, by token id. A value is from -100 to 100, and at most ${MAX_LOGIT_BIAS} may stand there.`,
  ),
  tools: z.array(tool, "an array of tools").max(MAX_TOOLS).nullish().describe("The functions that the model may call."),
  tool_choice: unchecked(chatToolChoice).describe("Whether and which function the model calls. Default: `auto`."),
  response_format: responseFormat.nullish().describe("The form of the answer's text. Default: free text."),
  thinking: unchecked(z.union([z.boolean(), thinkingSwitch]).nullish()).describe(
    "Whether to reason, where no effort is named. Of the switches from here on the first one counts.",
  ),
  think: unchecked(z.union([z.boolean(), effort]).nullish()).describe(
    "Whether to reason, or an effort, where no other effort is named.",
  ),
  thinking_token_budget: unchecked(z.int().min(1).nullish()).describe(
    "The most tokens of reasoning, cut below the limit of the answer, where the model reasons.",
  ),
  enable_thinking: unchecked(flag).describe("Whether to reason, where no effort is named."),
  chat_template_kwargs: unchecked(templateSwitches.nullish()).describe("Whether to reason, where no effort is named."),
  include_reasoning: unchecked(flag).describe("Whether to reason, where no effort is named."),
  service_tier: z.unknown().optional().describe("Any value; the reply then says `default`, which is the one tier."),
});

export type ChatBody = z.infer<typeof chatRequest>;

const KEPT = "Nothing is kept between requests.";
const TOKENS = "Token ids and the lengths of answers in tokens are the engine's; use 'stop' and 'max_tokens'.";
const OF_ANSWERS = "Only tokens of the answer are reported: use 'logprobs'.";
const TEMPLATE = "The prompt is written by the model's own chat template.";

/** The fields that do not reach the request; the refused ones are at the top level, in the order of their check. */
export const CHAT_UNTAKEN: readonly UntakenField[] = [
  ...refused("Answers are text.", { audio: [] }),
  ...refused("Use 'tools' instead.", { functions: [] }),
  ...refused("Use 'tool_choice' instead.", { function_call: [] }),
  ...refused("No tools run here.", { web_search_options: [] }),
  ...refused("The service is stateless: send the whole conversation.", {
    ...{ previous_response_id: [], previous_message_id: [], conversation: [], thread: [] },
  }),
  ...refused(KEPT, { container: [], store: [false] }),
  ...refused("Answers are not moderated here.", { moderation: [] }),
  ...refused("Use 'response_format' with a JSON Schema instead.", {
    ...{ guided_json: [], guided_regex: [], guided_choice: [], guided_grammar: [], structured_outputs: [] },
    ...{ json_schema: [], grammar: [], regex: [], ebnf: [], format: [""] },
  }),
  ...refused(TOKENS, { stop_token_ids: [[]], allowed_token_ids: [[]] }),
  ...refused("Use 'max_tokens' instead.", { n_predict: [-1] }),
  ...refused("Use 'stop' instead.", { stop_regex: [[]] }),
  ...refused("Send them as fields of this format, such as 'temperature' and 'max_tokens'.", { options: [{}] }),
  ...refused(OF_ANSWERS, { prompt_logprobs: [], return_token_ids: [false] }),
  ...refused("Use 'logit_bias' instead.", { bad_words: [[]] }),
  ...refused("An answer ends before its stop string.", { include_stop_str_in_output: [false] }),
  ...refused(TEMPLATE, { chat_template: [] }),
  ...refused("Send documents as text in the messages.", { documents: [[]] }),
  ...refused(TEMPLATE, { add_generation_prompt: [true], continue_final_message: [false] }),
  ...refused("An answer never repeats the prompt.", { echo: [false] }),
  ...refused("No prompt is cut: one that is too long is refused.", { truncate_prompt_tokens: [] }),
  ...refused("Only one choice per request is supported.", { best_of: [1] }),
  ...refused("Answers are sampled.", { use_beam_search: [false] }),
  ...ignored("Nothing is kept that it could be found by.", ["metadata"]),
  ...ignored("The key identifies the caller.", ["user", "safety_identifier"]),
  ...ignored("It would make the same answer faster, and changes nothing in it.", ["prediction"]),
  ...ignored("It is a hint, which no model here knows.", ["verbosity"]),
  ...ignored("The beginning of every prompt is cached.", ["prompt_cache_options.mode"]),
  ...ignored("Chunks are not padded.", ["stream_options.include_obfuscation"]),
  ...ignored("Answers are text, and so is their history.", ["messages[].audio"]),
  ...ignored("A text stands in its place, but for the last message, which is refused.", [
    ...["messages[].content[].file", "messages[].content[].input_audio"],
  ]),
];
