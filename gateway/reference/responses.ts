import * as z from "zod";
import { MAX_CACHE_KEY_LENGTH } from "../formats/cache-control.ts";
import { MAX_ITEMS } from "../formats/responses/items.ts";
import { responsesBody } from "../formats/responses/schema.ts";
import { MAX_TOOLS, TOOL_NAME } from "../formats/tools.ts";
import { closed, effort, jsonSchemaField, like, NO_EFFECT, named, tag } from "./shape.ts";

/* The body of `POST /v1/responses`. Null in an optional field means that it is absent. */

const inputText = named("InputTextPart", "A part of text. Either word for text is taken in every role.", {
  type: z.enum(["input_text", "output_text"]).describe("`input_text` or `output_text`."),
  text: z.string().describe("The text."),
});

const inputImage = named("InputImagePart", "An image, in user messages and outputs, for models that take images.", {
  type: tag("input_image"),
  image_url: z
    .string()
    .describe("A URL of the form `data:<type>;base64,<data>`: PNG, JPEG, GIF or WebP. Others are never fetched."),
  detail: z.enum(["auto", "low", "high", "original"]).nullish().describe("How finely to look. Default: `auto`."),
});

const refusal = named("RefusalPart", "A refusal of an earlier answer.", {
  type: tag("refusal"),
  refusal: z.string().describe("The text of the refusal."),
});

const content = z.union([z.string(), z.array(z.discriminatedUnion("type", [inputText, inputImage, refusal]))]);

const messageItem = named("InputMessageItem", "A message.", {
  type: z.literal("message").optional().describe("`message`, which may be left out."),
  role: z
    .enum(["user", "assistant", "system", "developer"])
    .describe("Whose message it is. `developer` is another word for `system`."),
  content: content.describe("What is said: a text or parts."),
});

const callItem = named("InputFunctionCall", "A function call of an earlier answer. Each needs its output behind it.", {
  type: tag("function_call"),
  call_id: z.string().describe("The id of the call."),
  name: z.string().describe("The name of the function."),
  arguments: z.string().describe("The arguments as JSON text."),
  namespace: z.string().nullish().describe("The namespace of the function, where it was declared in one."),
});

const outputItem = named("FunctionCallOutput", "The result of a function call.", {
  type: tag("function_call_output"),
  call_id: z.string().describe("The id of the call, which stands before."),
  output: content.describe("What the function gave: a text or parts."),
});

const reasoningItem = named(
  "InputReasoning",
  "Reasoning of an earlier answer, as it was. Of its three texts the first one that is there and can be read counts; nothing in it is an error.",
  {
    type: tag("reasoning"),
    encrypted_content: z
      .string()
      .nullish()
      .describe("The sealed reasoning of an earlier reply for the same key's owner and model."),
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

const compactionItem = named(
  "InputCompaction",
  "A compaction of an earlier reply, in place of what it summarises. One that does not open is an error.",
  {
    type: tag("compaction"),
    encrypted_content: z.string().describe("The sealed summary of an earlier reply for the same key's owner."),
  },
);

const triggerItem = named("CompactionTrigger", "Asks for a summary of all before it, as the last item.", {
  type: tag("compaction_trigger"),
});

const functionTool = named("FunctionTool", "A function that the model may call and the caller runs.", {
  type: tag("function"),
  name: z.string().regex(TOOL_NAME).describe("The name of the function, unique where it is declared."),
  description: z.string().nullish().describe("What the function does, for the model to read."),
  parameters: jsonSchemaField("The JSON Schema of the arguments, an object.")
    .nullish()
    .describe("The JSON Schema of the arguments, an object. Default: no arguments."),
  strict: z
    .boolean()
    .nullish()
    .describe(
      "Whether the arguments are held to the whole schema; see *Structured output*. Default: where the schema closes every object, requires every property and has common keywords alone.",
    ),
});

const namespaceTool = named(
  "NamespaceTool",
  "A group of the caller's own functions. The model sees one joined name; calls have name and namespace apart.",
  {
    type: tag("namespace"),
    name: z.string().regex(TOOL_NAME).describe("The name of the group."),
    description: z.string().nullish().describe("What the functions are for; repeated in the reply."),
    tools: z.array(functionTool).describe("The functions of the group."),
  },
);

const functionChoice = named("FunctionChoice", "One function by its name.", {
  type: tag("function"),
  name: z.string().describe("The name of a function in `tools`."),
  namespace: z.string().nullish().describe("The namespace of the function, where it was declared in one."),
});

const allowedChoice = named("AllowedTools", "Some of the functions by their names.", {
  type: tag("allowed_tools"),
  mode: z.enum(["auto", "required"]).describe("Whether the model may call one of them, or must."),
  tools: z.array(functionChoice).min(1).describe("The functions."),
});

const textFormat = z.discriminatedUnion("type", [
  closed("TextFormat", "Free text.", { type: tag("text") }),
  closed("JsonFormat", "One JSON object.", { type: tag("json_object") }),
  closed("SchemaFormat", "JSON that holds to a schema.", {
    type: tag("json_schema"),
    name: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,64}$/)
      .describe("The name of the schema."),
    schema: jsonSchemaField("The JSON Schema of the answer."),
    strict: z
      .boolean()
      .nullish()
      .describe("Whether the answer is held to the whole schema; see *Structured output*. Default: `false`."),
    description: z.string().nullish().describe("What the schema is for; repeated in the reply."),
  }),
]);

const flat = responsesBody.shape;
const text = flat.text.unwrap().unwrap().shape;
const reasoning = flat.reasoning.unwrap().unwrap().shape;

/** Returns a schema with its own description, marked as one that changes nothing. */
function inert<Inert extends z.ZodType>(schema: Inert) {
  return schema.meta({ description: schema.description, [NO_EFFECT]: true });
}

/** The body of `POST /v1/responses`. No other key may stand at its top level. */
export const responsesRequest = z
  .strictObject({
    ...flat,
    model: like(flat.model, z.string()),
    input: like(
      flat.input,
      z.union([
        z.string(),
        z
          .array(z.union([messageItem, callItem, outputItem, reasoningItem, compactionItem, triggerItem]))
          .min(1)
          .max(MAX_ITEMS),
      ]),
    ),
    tools: like(
      flat.tools,
      z
        .array(z.discriminatedUnion("type", [functionTool, namespaceTool]))
        .max(MAX_TOOLS)
        .nullish(),
    ),
    tool_choice: like(
      flat.tool_choice,
      z.union([z.enum(["none", "auto", "required"]), functionChoice, allowedChoice]).nullish(),
    ),
    text: like(flat.text, z.strictObject({ ...text, format: like(text.format, textFormat.nullish()) }).nullish()),
    reasoning: like(
      flat.reasoning,
      z
        .strictObject({
          ...reasoning,
          effort: like(reasoning.effort, effort.nullish()),
          context: inert(like(reasoning.context, z.enum(["auto", "current_turn", "all_turns"]).nullish())),
          mode: inert(like(reasoning.mode, z.enum(["standard"]).nullish())),
        })
        .nullish(),
    ),
    include: like(
      flat.include,
      z.array(z.enum(["reasoning.encrypted_content", "message.output_text.logprobs"])).nullish(),
    ),
    metadata: like(flat.metadata, z.record(z.string(), z.string()).nullish()),
    client_metadata: like(flat.client_metadata, z.record(z.string(), z.string()).nullish()),
    store: like(flat.store, z.literal(false).nullish()),
    background: like(flat.background, z.literal(false).nullish()),
    truncation: like(flat.truncation, z.literal("disabled").nullish()),
    context_management: like(flat.context_management, z.array(z.unknown()).max(0).nullish()),
    previous_response_id: like(flat.previous_response_id, z.null().optional()),
    conversation: like(flat.conversation, z.null().optional()),
    prompt: like(flat.prompt, z.null().optional()),
    moderation: like(flat.moderation, z.null().optional()),
    prompt_cache_key: like(flat.prompt_cache_key, z.string().max(MAX_CACHE_KEY_LENGTH).nullish()),
  })
  .meta({ id: "ResponsesRequest", description: "The body of a request for a response. Unknown keys are refused." });
