import * as z from "zod";
import { unchecked } from "../checked.ts";
import {
  cacheControl,
  effort,
  flag,
  jsonSchemaField,
  MAX_MESSAGES,
  MAX_STOP_LENGTH,
  MAX_STOP_STRINGS,
  modelId,
  named,
  optional,
  stopText,
  stream,
  strictTool,
  tag,
  temperatureUpTo,
  topP,
  withoutEffect,
} from "../fields.ts";
import { IMAGE_TYPES } from "../parts.ts";
import { ignored, refused, type UntakenField } from "../request-body.ts";
import { allowedCallers, MAX_TOOLS, toolName } from "../tools.ts";

/*
 * The bodies of `POST /v1/messages` and `POST /v1/messages/count_tokens`: these schemas check requests and generate the
 * documentation. Null in an optional field means that it is absent. Schemas are open: unlisted keys are ignored. Blocks
 * are read one by one, as their fields depend on their position.
 */

const outputFormat = z.object({
  type: z.enum(["json_schema"]).describe("The kind of the format."),
  schema: jsonSchemaField("The JSON Schema that the text of the answer holds to, as with `strict`."),
});

export const textBlock = named("TextBlock", "Text. Empty text is left out.", {
  type: tag("text"),
  text: z.string().describe("The text."),
  cache_control: cacheControl,
});

export const imageBlock = named("ImageBlock", "An image, for models that take images. It may stand in user messages.", {
  type: tag("image"),
  source: z
    .discriminatedUnion("type", [
      named("Base64Source", "An image as data.", {
        type: tag("base64"),
        // Not checked: clients derive the type from a file name, and the data shows its own.
        media_type: z.string().meta({ description: "The type of the image.", enum: [...IMAGE_TYPES] }),
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

export const plainTextSource = named("PlainTextSource", "A document as one text.", {
  type: tag("text"),
  data: z.string().describe("The text of the document."),
  media_type: withoutEffect("The type of the text."),
});

export const documentBlock = named(
  "DocumentBlock",
  "A document of text, in user messages. Others, such as PDF, are what the model cannot read.",
  {
    type: tag("document"),
    source: z
      .discriminatedUnion("type", [
        plainTextSource,
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

export const searchResultBlock = named("SearchResultBlock", "A result of a search by the caller, in user messages.", {
  type: tag("search_result"),
  source: z.string().nullish().describe("Where the result is from."),
  title: z.string().nullish().describe("The title of the result."),
  content: z.array(textBlock).describe("The text of the result."),
  cache_control: cacheControl,
});

export const toolReferenceBlock = named(
  "ToolReferenceBlock",
  "A tool that a search for tools has found, in tool results. A deferred tool is read there.",
  {
    type: tag("tool_reference"),
    tool_name: z.string().min(1).describe("The name of the tool."),
    cache_control: cacheControl,
  },
);

export const toolResultBlock = named("ToolResultBlock", "The result of a tool call, in the user message behind it.", {
  type: tag("tool_result"),
  tool_use_id: z.string().min(1).describe("The id of the call, of the assistant turn right before."),
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

export const toolUseBlock = named(
  "ToolUseBlock",
  "A tool call, in assistant messages. Each needs its result in the next turn.",
  {
    type: tag("tool_use"),
    id: z.string().min(1).describe("The id of the call, unique within its turn."),
    name: z.string().min(1).describe("The name of the tool."),
    input: optional(z.looseObject({}).meta({ description: "The arguments." }), "The arguments. Default: none."),
    cache_control: cacheControl,
  },
);

export const thinkingBlock = named("ThinkingBlock", "Thinking of an earlier turn, in assistant messages.", {
  type: tag("thinking"),
  thinking: z.string().nullish().describe("The text; empty where the reply withheld it."),
  signature: optional(
    z.string(),
    "The signature of the reply. Where the text is empty it brings the text back; otherwise it is ignored.",
  ),
  cache_control: cacheControl,
});

export const compactionBlock = named("CompactionBlock", "A summary, in place of all that stands before it.", {
  type: tag("compaction"),
  content: z.string().nullish().describe("The summary."),
  cache_control: cacheControl,
});

export const tool = named("Tool", "A tool that the model may call and the caller runs.", {
  name: toolName.describe("The name of the tool, unique in the list."),
  type: unchecked(z.literal("custom").nullish()).describe(
    "`custom` or absent; or the vendor's tools that callers run, `bash_…`, `text_editor_…`, `memory_…` and `computer_…`, which need no schema. Those that the vendor hosts are refused.",
  ),
  description: z.string().nullish().describe("What the tool does, for the model to read."),
  input_schema: jsonSchemaField("The JSON Schema of the arguments, an object."),
  strict: strictTool,
  defer_loading: unchecked(z.boolean().nullish()).describe(
    "Whether the prompt begins without the tool: the model reads it where the first `tool_reference` or `tool_addition` in `messages` names it, and may call it from there on. Without one it is neither shown nor callable. Default: `false`.",
  ),
  allowed_callers: allowedCallers,
  cache_control: cacheControl,
});

const namedTool = named("NamedTool", "A tool by its name.", {
  type: tag("tool_reference"),
  name: z.string().min(1).describe("The name of the tool."),
});

export const toolAdditionBlock = named(
  "ToolAdditionBlock",
  "A tool that can be called from here on, in user messages, and in system messages where they are taken. A tool that is gone is left out.",
  {
    type: tag("tool_addition"),
    tool: z
      .discriminatedUnion("type", [
        namedTool,
        named("DefinedTool", "A tool that is not in `tools`.", {
          type: tag("tool_definition"),
          definition: unchecked(tool).describe("The tool. It is read here, and not at the beginning of the prompt."),
        }),
      ])
      .describe("The tool."),
    cache_control: cacheControl,
  },
);

export const toolRemovalBlock = named(
  "ToolRemovalBlock",
  "A tool that cannot be called from here on, where a `tool_addition` stands. What the model has read of it stays.",
  {
    type: tag("tool_removal"),
    tool: z.discriminatedUnion("type", [namedTool]).describe("The tool."),
    cache_control: cacheControl,
  },
);

const block = z.discriminatedUnion("type", [
  textBlock,
  imageBlock,
  documentBlock,
  searchResultBlock,
  toolUseBlock,
  toolResultBlock,
  thinkingBlock,
  compactionBlock,
  toolAdditionBlock,
  toolRemovalBlock,
]);

export const inputMessage = named("InputMessage", "A message of the conversation.", {
  role: z.enum(["user", "assistant"]).describe("Whose message it is. System text stands in `system`."),
  content: z
    .union([z.string(), z.array(block)])
    .describe(
      "The content: a text or blocks. Blocks of hosted tools and of unknown types are left out. An `assistant` message at the end is the beginning of the answer.",
    ),
});

const toolChoice = named("ToolChoice", "Whether and which tool the model calls.", {
  type: z
    .enum(["auto", "any", "tool", "none"])
    .describe(
      "Whether the model may call a tool, must call one, must call the one that `name` says, or may call none.",
    ),
  name: unchecked(z.string().optional()).describe("The name of a tool in `tools`. Required with `tool`."),
  disable_parallel_tool_use: optional(z.boolean(), "Whether one answer may hold one call only. Default: `false`."),
});

const maxTokens = z
  .int()
  .min(1)
  .describe(
    "The most tokens of the answer, those of thinking included. More than the window has room for is cut to that.",
  );

const contextEdit = named("ContextEdit", "An edit of a conversation that grows.", {
  type: z.string().describe("`compact_20260112` is a summary. Other edits only shorten prompts, and are ignored."),
  pause_after_compaction: flag.describe(
    "Whether the reply is the summary, as with `compaction`. Without it the edit is ignored. Default: `false`.",
  ),
  trigger: z
    .object({ value: z.int().nullish().describe("The number of tokens. Default: 150,000.") })
    .nullish()
    .describe("The tokens of the messages, by estimate, from which on there is a summary."),
  instructions: z.string().nullish().describe("The words that ask for the summary. Default: the service's own."),
});

const prompt = {
  messages: z
    .array(unchecked(inputMessage))
    .min(1)
    .max(MAX_MESSAGES)
    .describe("The conversation so far. Neighbouring messages of one role are one turn."),
  system: unchecked(z.union([z.string(), z.array(textBlock)]).nullish()).describe(
    "The system text: a text or blocks of text.",
  ),
};

const toolFields = {
  tools: optional(z.array(unchecked(tool), "an array of tools").max(MAX_TOOLS), "The tools that the model may call."),
  tool_choice: toolChoice.nullish().describe("Whether and which tool the model calls. Default: `auto`."),
};

const options = {
  stream,
  temperature: temperatureUpTo(1),
  top_p: topP,
  top_k: optional(
    z
      .int()
      .min(0)
      .max(2 ** 32 - 1),
    "Number of likeliest tokens to choose from; 0 means all. Default: the model's own.",
  ),
  thinking: z
    .object({
      type: z
        .enum(["enabled", "disabled", "adaptive", "between_tools"])
        .describe(
          "`disabled` switches thinking off; the others switch it on, `enabled` with a budget and the others without one.",
        ),
      budget_tokens: optional(
        z.int().min(1),
        "The most tokens of thinking, cut below `max_tokens`. Required with `enabled`.",
      ),
      display: z
        .unknown()
        .optional()
        .describe(
          "`omitted` keeps the text of thinking from the reply: its block then has a signature alone, which brings the text back when it is sent again. Any other value shows the text.",
        ),
    })
    .nullish()
    .describe("Whether the model thinks before it answers. Default: the model's own."),
  output_config: z
    .object({
      effort: effort
        .nullish()
        .describe(
          "How much to think. `none` switches thinking off, `minimal` is `low`, and `xhigh`, `max` and `ultra` are `high`.",
        ),
      format: outputFormat.nullish().describe("The form of the answer's text. Default: free text."),
    })
    .nullish()
    .describe("The form and the effort of the answer."),
  output_format: outputFormat.nullish().describe("The older place of `output_config.format`."),
  stop_sequences: optional(
    z.array(stopText, "an array of strings").max(MAX_STOP_STRINGS),
    `Texts of at most ${MAX_STOP_LENGTH} characters that end the answer where they would occur; they are not part of it.`,
  ),
  cache_control: cacheControl,
  compaction: z
    .object({
      type: z.enum(["summarize"]).describe("The kind of the compaction."),
      instructions: z.string().nullish().describe("The words that ask for the summary. Default: the service's own."),
    })
    .nullish()
    .describe("Asks for a summary of the conversation in place of an answer: the reply is one `compaction` block."),
  context_management: unchecked(
    z.object({ edits: z.array(contextEdit).nullish().describe("The edits.") }).nullish(),
  ).describe("The treatment of a conversation that grows."),
  diagnostics: unchecked(
    z
      .object({
        previous_message_id: z.string().nullish().describe("The id of the reply before, where there was one."),
      })
      .nullish(),
  ).describe("Asks why the prompt was not read from the cache; the reply has the same field."),
  metadata: unchecked(
    z
      .object({
        user_id: optional(z.string(), "A text that requests of one user share, so that they meet the same cache."),
      })
      .nullish(),
  ).describe("Who asks, as far as the caller says so."),
};

export const messagesRequest = named("MessagesRequest", "The body of a request for a message.", {
  model: modelId,
  messages: prompt.messages,
  max_tokens: maxTokens,
  system: prompt.system,
  ...options,
  ...toolFields,
});

/** The body of a count, which has no answer: `max_tokens` may be absent or any value. */
export const countTokensBody = messagesRequest.extend({ max_tokens: z.unknown().optional() });

export const countTokensRequest = named(
  "CountTokensRequest",
  "The body of a count: that of the message whose prompt is counted. What stands beside these fields is checked as there, and changes no count.",
  {
    model: modelId,
    ...prompt,
    ...toolFields,
    thinking: options.thinking,
    output_config: options.output_config,
  },
);

/** The fields that checked bodies of messages and counts have in common. */
export type MessagesBody = z.infer<typeof countTokensBody>;

const KEPT = "Nothing is kept between requests.";

/** Blocks whose content stands in the text behind them. */
const TRACES = [
  ...["redacted_thinking", "server_tool_use", "container_upload", "mcp_tool_use", "mcp_tool_result"],
  ...["mcp_tool_listing", "web_search_tool_result", "web_fetch_tool_result", "tool_search_tool_result"],
  ...["code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result"],
];

/** The fields that do not reach the request; the refused ones are at the top level, in the order of their check. */
export const MESSAGES_UNTAKEN: readonly UntakenField[] = [
  {
    field: "thread",
    becomes: "refused",
    why: "Threads are not supported; send the whole conversation.",
    // With these details the vendor's SDK sends the whole conversation on its own.
    details: { error_code: "thread_unsupported_request", unsupported: ["thread"] },
  },
  ...refused(KEPT, {
    container: [],
    previous_message_id: [],
    previous_response_id: [],
    conversation: [],
    store: [false],
  }),
  ...refused("No tools run here; send their definitions in 'tools'.", { mcp_servers: [[]] }),
  ...refused("No place can be chosen where a request is worked on.", { inference_geo: ["global"] }),
  ...refused("All requests are worked on at one speed.", { speed: ["standard"] }),
  ...refused("A request is billed to the key that sends it.", {
    billing_policy: [{ type: "billing_policy" }, { type: "billing_policy", bill_to: "self" }],
  }),
  ...ignored(
    "It is a trace of a tool that ran at a vendor, or reasoning that only a vendor reads: left out of the prompt.",
    TRACES.map((type) => `messages[].content[]<${type}>`),
  ),
  ...ignored("The text is read, and no answer cites.", ["messages[].content[].citations"]),
  ...ignored("Calls are the model's own.", ["messages[].content[].caller", "messages[].content[].toolset_name"]),
  ...ignored("A text stands in the place of a stored file, but for the last message, which is refused.", [
    "messages[].content[].source.file_id",
  ]),
  ...ignored("Engines scale images as their model needs.", ["messages[].content[].transformations"]),
  ...ignored("A summary is its text, and summaries made here change no tools.", [
    ...["messages[].content[].encrypted_content", "messages[].content[].tool_changes"],
  ]),
  ...ignored("Arguments are always streamed as they are written.", ["tools[].eager_input_streaming"]),
  ...ignored("Chat templates have no place for it.", ["tools[].input_examples"]),
  ...ignored("It is for the caller, who runs the tool.", ["tools[].max_characters", "tools[].display_number"]),
  ...ignored("It only shortens prompts, and none is shortened here.", [
    ...["clear_thinking_20251015", "clear_tool_uses_20250919"].map((type) => `context_management.edits[]<${type}>`),
  ]),
  ...ignored("It is advice to models of the vendor; 'max_tokens' limits an answer.", ["output_config.task_budget"]),
  ...ignored("Thinking is read as it is, whatever stands before it.", ["thinking.block_binding"]),
  ...ignored("It changes what the vendor charges.", ["fallback_credit_token"]),
  ...ignored("It is a header of the vendor's service.", ["user_profile_id", "workspace_id"]),
  ...ignored("There is one tier, which the answer names.", ["service_tier"]),
  ...ignored("The model that was asked answers, or none.", ["fallbacks"]),
  ...ignored("It names features of the vendor's service.", ["betas"]),
];
