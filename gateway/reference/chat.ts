import * as z from "zod";
import { CACHE_TTLS, MAX_CACHE_KEY_LENGTH } from "../formats/cache-control.ts";
import { MAX_MESSAGES } from "../formats/chat/messages.ts";
import { MAX_LOGIT_BIAS } from "../formats/chat/sampling.ts";
import { chatScalars } from "../formats/chat/schema.ts";
import { MAX_STOP_STRINGS } from "../formats/stop-strings.ts";
import { MAX_TOOLS, TOOL_NAME } from "../formats/tools.ts";
import { cacheControl, effort, jsonSchemaField, like, modelId, named, tag, withoutEffect } from "./shape.ts";

/* The body of `POST /v1/chat/completions`. Null in an optional field means that it is absent. */

const contentPart = z.discriminatedUnion("type", [
  named("ChatTextPart", "A part of text, in messages of any role.", {
    type: tag("text"),
    text: z.string().describe("The text."),
    cache_control: cacheControl,
  }),
  named("ChatImagePart", "An image, in messages of the roles `user` and `tool` and for models that take images.", {
    type: tag("image_url"),
    image_url: named("ChatImage", "An image as data.", {
      url: z
        .string()
        .describe("A URL of the form `data:<type>;base64,<data>`: PNG, JPEG, GIF or WebP. Others are never fetched."),
      detail: z.enum(["auto", "low", "high"]).nullish().describe("How finely to look. Default: `auto`."),
    }),
    cache_control: cacheControl,
  }),
  named("ChatRefusalPart", "A refusal, in messages of the role `assistant`.", {
    type: tag("refusal"),
    refusal: z.string().describe("The text of the refusal."),
    cache_control: cacheControl,
  }),
]);

const functionCall = named("ChatFunctionCall", "The function that a call names, and its arguments.", {
  name: z.string().describe("The name of the function."),
  arguments: z.string().describe("The arguments as JSON text. In a history, text that is not JSON is taken as it is."),
});

/** A tool call, as replies hold it and histories send it back. */
export const chatToolCall = named("ChatToolCall", "A tool call.", {
  id: z.string().describe("The id of the call, which the message with its result names. Unique within the message."),
  type: tag("function"),
  function: functionCall,
});

const message = named("ChatMessage", "A message of the conversation.", {
  role: z
    .enum(["system", "developer", "user", "assistant", "tool"])
    .describe("Whose message it is. `developer` is another word for `system`."),
  content: z
    .union([z.string(), z.array(contentPart)])
    .nullish()
    .describe("What is said: a text or a list of parts. Null and absent are an empty text."),
  name: z.string().nullish().describe("The name of the speaker, where the model's template has a place for one."),
  tool_calls: z
    .array(chatToolCall)
    .nullish()
    .describe("The calls of an `assistant` message. Each needs its `tool` message before anything else is said."),
  tool_call_id: z
    .string()
    .nullish()
    .describe("The id of the call that a `tool` message is the result of. Required with the role `tool`."),
  reasoning_content: z
    .string()
    .nullish()
    .describe("The reasoning of an `assistant` message, as an earlier reply held it."),
  reasoning: z.string().nullish().describe("Another name of `reasoning_content`."),
  refusal: z.string().nullish().describe("A refusal of an `assistant` message, which reads as its text."),
  cache_control: cacheControl,
});

const tool = named("ChatTool", "A function that the model may call and the caller runs.", {
  type: tag("function"),
  function: named("ChatFunction", "The definition of a function.", {
    name: z.string().regex(TOOL_NAME).describe("The name of the function."),
    description: z.string().nullish().describe("What the function does, for the model to read."),
    parameters: jsonSchemaField("The JSON Schema of the arguments, an object.")
      .nullish()
      .describe("The JSON Schema of the arguments, an object. Default: no arguments."),
    strict: z
      .boolean()
      .nullish()
      .describe("Whether the arguments are held to the whole schema; see *Structured output*. Default: `false`."),
    cache_control: cacheControl,
  }),
  cache_control: cacheControl,
});

const namedFunction = named("ChatNamedTool", "One function by its name.", {
  type: tag("function"),
  function: named("ChatFunctionName", "The name of a function.", {
    name: z.string().describe("The name of a function in `tools`."),
  }),
});

const allowedTools = named("ChatAllowedTools", "Some of the functions by their names.", {
  type: tag("allowed_tools"),
  allowed_tools: named("ChatAllowedList", "The functions that may be called, and whether one must be.", {
    mode: z.enum(["auto", "required"]).describe("Whether the model may call one of them, or must."),
    tools: z.array(namedFunction).min(1).describe("The functions."),
  }),
});

const responseFormat = z.discriminatedUnion("type", [
  named("ChatTextFormat", "Free text.", { type: tag("text") }),
  named("ChatJsonFormat", "One JSON object.", { type: tag("json_object") }),
  named("ChatSchemaFormat", "JSON that holds to a schema.", {
    type: tag("json_schema"),
    json_schema: named("ChatSchema", "The schema of an answer.", {
      name: z
        .string()
        .regex(/^[A-Za-z0-9_-]{1,64}$/)
        .describe("The name of the schema."),
      schema: jsonSchemaField("The JSON Schema of the answer."),
      strict: z
        .boolean()
        .nullish()
        .describe("Whether the answer is held to the whole schema; see *Structured output*. Default: `false`."),
      description: withoutEffect("What the schema is for."),
    }),
  }),
]);

const thinkingSwitch = named("ChatThinking", "A switch for reasoning, as self-hosted stacks know it.", {
  type: z
    .enum(["enabled", "adaptive", "disabled"])
    .describe("`disabled` switches reasoning off, the others switch it on."),
  budget_tokens: z
    .int()
    .min(1)
    .nullish()
    .describe("The most tokens of reasoning, cut below the limit of the answer. Default: no limit of its own."),
});

const templateSwitches = named("ChatTemplateSwitches", "Switches for reasoning under their names in templates.", {
  enable_thinking: z.boolean().nullish().describe("Whether to reason."),
  thinking: z.boolean().nullish().describe("Another name of `enable_thinking`."),
});

const flat = chatScalars.shape;
const reasoning = flat.reasoning.unwrap().unwrap().shape;

/** The body of `POST /v1/chat/completions`. */
export const chatRequest = named("ChatRequest", "The body of a request for a chat completion.", {
  model: modelId,
  messages: z.array(message).min(1).max(MAX_MESSAGES).describe("The conversation so far."),
  ...flat,
  stop: z
    .union([z.string(), z.array(z.string()).max(MAX_STOP_STRINGS)])
    .nullish()
    .describe("Texts that end the answer where they would occur; they are not part of it. Empty texts are left out."),
  seed: z
    .int()
    .nullish()
    .describe("A number that makes random choices repeatable, as far as the engine can. Any integer is taken."),
  logit_bias: z
    .record(z.string(), z.number().min(-100).max(100))
    .nullish()
    .describe(
      `What is added to the odds of tokens, by token id. A value is from -100 to 100, and at most ${MAX_LOGIT_BIAS} may stand there.`,
    ),
  tools: z.array(tool).max(MAX_TOOLS).nullish().describe("The functions that the model may call."),
  tool_choice: z
    .union([z.enum(["none", "auto", "required"]), namedFunction, allowedTools])
    .nullish()
    .describe("Whether and which function the model calls. Default: `auto`."),
  response_format: responseFormat.nullish().describe("The form of the answer's text. Default: free text."),
  prompt_cache_key: like(flat.prompt_cache_key, z.string().max(MAX_CACHE_KEY_LENGTH).nullish()),
  cache_ttl: like(flat.cache_ttl, z.enum(CACHE_TTLS).nullish()),
  reasoning: like(flat.reasoning, z.looseObject({ effort: like(reasoning.effort, effort.nullish()) }).nullish()),
  reasoning_effort: like(flat.reasoning_effort, effort.nullish()),
  thinking: z
    .union([z.boolean(), thinkingSwitch])
    .nullish()
    .describe("Whether to reason, where no effort is named. Of the switches from here on the first one counts."),
  enable_thinking: z.boolean().nullish().describe("Whether to reason, where no effort is named."),
  chat_template_kwargs: templateSwitches.nullish().describe("Whether to reason, where no effort is named."),
  include_reasoning: z.boolean().nullish().describe("Whether to reason, where no effort is named."),
  service_tier: z.unknown().optional().describe("Any value; the reply then says `default`, which is the one tier."),
});
