import * as z from "zod";
import { MAX_MESSAGES, messagesBody } from "../formats/messages/schema.ts";
import { MAX_STOP_STRINGS } from "../formats/stop-strings.ts";
import { MAX_TOOLS, TOOL_NAME } from "../formats/tools.ts";
import { cacheControl, jsonSchemaField, modelId, named, tag, withoutEffect } from "./shape.ts";

/* The bodies of `POST /v1/messages` and `POST /v1/messages/count_tokens`. Null in an optional field means absent. */

/** A block of text, as requests and replies hold it. */
const textBlock = named("TextBlock", "Text. Empty text is left out.", {
  type: tag("text"),
  text: z.string().describe("The text."),
  cache_control: cacheControl,
});

const imageBlock = named("ImageBlock", "An image, for models that take images. It may stand in user messages.", {
  type: tag("image"),
  source: z
    .discriminatedUnion("type", [
      named("Base64Source", "An image as data.", {
        type: tag("base64"),
        media_type: z.enum(["image/png", "image/jpeg", "image/gif", "image/webp"]).describe("The type of the image."),
        data: z.string().describe("The data of the image in base64."),
      }),
      named("UrlSource", "An image as a URL that holds its data.", {
        type: tag("url"),
        url: z.string().describe("A URL of the form `data:<type>;base64,<data>`. Others are never fetched."),
      }),
    ])
    .describe("Where the image is."),
  cache_control: cacheControl,
});

const documentBlock = named(
  "DocumentBlock",
  "A document of text, in user messages. Others, such as PDF, are what the model cannot read.",
  {
    type: tag("document"),
    source: z
      .discriminatedUnion("type", [
        named("PlainTextSource", "A document as one text.", {
          type: tag("text"),
          data: z.string().describe("The text of the document."),
          media_type: withoutEffect("The type of the text."),
        }),
        named("ContentSource", "A document as blocks.", {
          type: tag("content"),
          content: z
            .union([z.string(), z.array(z.discriminatedUnion("type", [textBlock, imageBlock]))])
            .describe("A text, or blocks of text and images."),
        }),
      ])
      .describe("Where the document is."),
    title: z.string().nullish().describe("The title of the document."),
    context: z.string().nullish().describe("What the document is about."),
    cache_control: cacheControl,
  },
);

const searchResultBlock = named("SearchResultBlock", "A result of a search by the caller, in user messages.", {
  type: tag("search_result"),
  source: z.string().nullish().describe("Where the result is from."),
  title: z.string().nullish().describe("The title of the result."),
  content: z.array(textBlock).describe("The text of the result."),
  cache_control: cacheControl,
});

const toolReferenceBlock = named("ToolReferenceBlock", "A tool that a search for tools has found, in tool results.", {
  type: tag("tool_reference"),
  tool_name: z.string().describe("The name of the tool."),
  cache_control: cacheControl,
});

const toolResultBlock = named("ToolResultBlock", "The result of a tool call, in the user message behind it.", {
  type: tag("tool_result"),
  tool_use_id: z.string().describe("The id of the call, of the assistant turn right before."),
  content: z
    .union([
      z.string(),
      z.array(
        z.discriminatedUnion("type", [textBlock, imageBlock, documentBlock, searchResultBlock, toolReferenceBlock]),
      ),
    ])
    .nullish()
    .describe("What the tool gave: a text or blocks. Absent is an empty text."),
  is_error: z.boolean().nullish().describe("Whether the tool failed. Default: `false`."),
  cache_control: cacheControl,
});

const toolUseBlock = named(
  "ToolUseBlock",
  "A tool call, in assistant messages. Each needs its result in the next turn.",
  {
    type: tag("tool_use"),
    id: z.string().describe("The id of the call, unique within its turn."),
    name: z.string().describe("The name of the tool."),
    input: z
      .looseObject({})
      .meta({ description: "The arguments." })
      .nullish()
      .describe("The arguments. Default: none."),
    cache_control: cacheControl,
  },
);

const thinkingBlock = named("ThinkingBlock", "Thinking of an earlier turn, in assistant messages.", {
  type: tag("thinking"),
  thinking: z.string().nullish().describe("The text; empty where the reply withheld it."),
  signature: z
    .string()
    .nullish()
    .describe("The signature of the reply. Where the text is empty it brings the text back; else nobody asks for it."),
  cache_control: cacheControl,
});

const compactionBlock = named("CompactionBlock", "A summary of what was said before.", {
  type: tag("compaction"),
  content: z.string().nullish().describe("The summary."),
  cache_control: cacheControl,
});

const block = z.discriminatedUnion("type", [
  textBlock,
  imageBlock,
  documentBlock,
  searchResultBlock,
  toolUseBlock,
  toolResultBlock,
  thinkingBlock,
  compactionBlock,
]);

const message = named("InputMessage", "A message of the conversation.", {
  role: z.enum(["user", "assistant"]).describe("Whose message it is. System text stands in `system`."),
  content: z
    .union([z.string(), z.array(block)])
    .describe(
      "What is said: a text or blocks. Blocks of hosted tools and of unknown types are left out. An `assistant` message at the end is the beginning of the answer.",
    ),
});

const tool = named("Tool", "A tool that the model may call and the caller runs.", {
  name: z.string().regex(TOOL_NAME).describe("The name of the tool, unique in the list."),
  type: z.literal("custom").nullish().describe("`custom` or absent. Tools that a vendor defines are refused."),
  description: z.string().nullish().describe("What the tool does, for the model to read."),
  input_schema: jsonSchemaField("The JSON Schema of the arguments, an object."),
  strict: z
    .boolean()
    .nullish()
    .describe("Whether the arguments are held to the whole schema; see *Structured output*. Default: `false`."),
  defer_loading: z
    .boolean()
    .nullish()
    .describe("Taken into account for the placeholder of an agent that holds its tools back; else without effect."),
  cache_control: cacheControl,
});

const toolChoice = named("ToolChoice", "Whether and which tool the model calls.", {
  type: z
    .enum(["auto", "any", "tool", "none"])
    .describe(
      "Whether the model may call a tool, must call one, must call the one that `name` says, or may call none.",
    ),
  name: z.string().optional().describe("The name of a tool in `tools`. Required with `tool`."),
  disable_parallel_tool_use: z
    .boolean()
    .nullish()
    .describe("Whether one answer may hold one call only. Default: `false`."),
});

const prompt = {
  model: modelId,
  messages: z
    .array(message)
    .min(1)
    .max(MAX_MESSAGES)
    .describe(messagesBody.shape.messages.description ?? ""),
  system: z
    .union([z.string(), z.array(textBlock)])
    .nullish()
    .describe("The system text: a text or blocks of text."),
  tools: z.array(tool).max(MAX_TOOLS).nullish().describe("The tools that the model may call."),
  tool_choice: toolChoice.nullish().describe("Whether and which tool the model calls. Default: `auto`."),
};

const { messages: _messages, max_tokens, ...options } = messagesBody.shape;

const answer = {
  ...options,
  stop_sequences: z
    .array(z.string())
    .max(MAX_STOP_STRINGS)
    .nullish()
    .describe("Texts that end the answer where they would occur; they are not part of it."),
  cache_control: cacheControl,
  metadata: z
    .looseObject({
      user_id: z
        .string()
        .nullish()
        .describe("A text that requests of one user share, so that they meet the same cache."),
    })
    .nullish()
    .describe("Who asks, as far as the caller says so."),
};

/** The body of `POST /v1/messages`. */
export const messagesRequest = named("MessagesRequest", "The body of a request for a message.", {
  model: prompt.model,
  max_tokens,
  messages: prompt.messages,
  system: prompt.system,
  ...answer,
  tools: prompt.tools,
  tool_choice: prompt.tool_choice,
});

/** The body of `POST /v1/messages/count_tokens`. */
export const countTokensRequest = named(
  "CountTokensRequest",
  "The body of a count: that of the message whose prompt is counted. What stands beside these fields is checked as there, and changes no count.",
  {
    ...prompt,
    thinking: options.thinking,
    output_config: options.output_config,
  },
);
