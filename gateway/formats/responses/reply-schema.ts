import * as z from "zod";
import { named, tag, type Written } from "../fields.ts";
import type { ResponsesBody } from "./schema.ts";
import { localShellCall, patchCall, shellCall } from "./vendor-tools.ts";

const alternative = {
  token: z.string().describe("The text of the token."),
  bytes: z.array(z.int()).describe("The bytes of the token; empty where they are not known."),
  logprob: z.number().describe("The natural logarithm of its probability; -9999 stands for an impossible token."),
};

const logprob = named("OutputLogprob", "A token of the answer.", {
  ...alternative,
  top_logprobs: z
    .array(named("OutputTopLogprob", "A token that might have stood there.", alternative))
    .describe("The likeliest tokens at this place, as many as were asked for."),
});

export type Logprob = Written<typeof logprob>;

const logprobs = z.array(logprob).describe("The log probabilities of the text's tokens; empty unless asked for.");

const outputText = named("OutputText", "The part of a message.", {
  type: tag("output_text"),
  text: z.string().describe("The text."),
  annotations: z.array(z.unknown()).describe("Always empty."),
  logprobs,
});

const reasoningText = named("OutputReasoningText", "Reasoning as text.", {
  type: tag("reasoning_text"),
  text: z.string().describe("The reasoning."),
});

const summaryText = named("OutputSummaryText", "Reasoning as a summary.", {
  type: tag("summary_text"),
  text: z.string().describe("The reasoning itself, as no summary is made of it."),
});

const status = z.enum(["in_progress", "completed", "incomplete"]).describe("How far the item is.");

const messageItem = named("OutputMessage", "A message.", {
  type: tag("message"),
  id: z.string().describe("The id of the item, `msg_…`."),
  role: tag("assistant"),
  status,
  content: z.array(outputText).describe("The text as one part; empty where a stream announces the item."),
});

const reasoningItem = named("OutputReasoning", "Reasoning, for requests that ask for it.", {
  type: tag("reasoning"),
  id: z.string().describe("The id of the item, `rs_…`."),
  summary: z.array(summaryText).describe("The reasoning, where `reasoning.summary` asked for it; else empty."),
  content: z.array(reasoningText).optional().describe("The reasoning as text, where no summary was asked for."),
  encrypted_content: z.string().optional().describe("The sealed reasoning to send back, where `include` asked for it."),
  status,
});

const callItem = named("OutputFunctionCall", "A function call.", {
  type: tag("function_call"),
  id: z.string().describe("The id of the item, `fc_…`."),
  status,
  call_id: z.string().describe("The id of the call, which its output names."),
  namespace: z.string().optional().describe("The namespace of the function, where it was declared in one."),
  name: z.string().describe("The name of the function."),
  arguments: z.string().describe("The arguments as JSON text."),
});

const customCallItem = named("OutputCustomToolCall", "A call of a `custom` tool.", {
  type: tag("custom_tool_call"),
  id: z.string().describe("The id of the item, `ctc_…`."),
  status,
  call_id: z.string().describe("The id of the call, which its output names."),
  namespace: z.string().optional().describe("The namespace of the tool, where it was declared in one."),
  name: z.string().describe("The name of the tool."),
  input: z.string().describe("The text for the tool."),
});

const searchCallItem = named("OutputToolSearchCall", "A call of the caller's `tool_search`.", {
  type: tag("tool_search_call"),
  id: z.string().describe("The id of the item, `tsc_…`."),
  status,
  call_id: z.string().describe("The id of the call, which its output names."),
  execution: tag("client"),
  arguments: z.unknown().describe("The arguments as an object; their text where they are none, or were cut."),
});

const compactionItem = named("OutputCompaction", "The summary of a conversation, which only this service can read.", {
  type: tag("compaction"),
  id: z.string().describe("The id of the item, `cmp_…`."),
  encrypted_content: z.string().describe("The sealed summary, to be sent back in place of what it summarises."),
});

export type BlockItem =
  | Written<typeof messageItem>
  | Written<typeof reasoningItem>
  | Written<typeof callItem>
  | Written<typeof customCallItem>
  | Written<typeof searchCallItem>
  | Written<typeof shellCall>
  | Written<typeof localShellCall>
  | Written<typeof patchCall>;

/** An item that replaces a whole conversation. */
export type CompactionItem = Written<typeof compactionItem>;

export type OutputItem = BlockItem | CompactionItem;

const item = z.discriminatedUnion("type", [
  messageItem,
  reasoningItem,
  callItem,
  customCallItem,
  searchCallItem,
  shellCall,
  localShellCall,
  patchCall,
  compactionItem,
]);

const usage = named("ResponseUsage", "The tokens of prompt and answer.", {
  input_tokens: z.int().describe("The tokens of the prompt."),
  input_tokens_details: named("InputTokensDetails", "What of the prompt the prefix cache spared.", {
    cached_tokens: z.int().describe("The tokens of the prompt that were read from the cache."),
    cache_write_tokens: z.int().describe("The tokens of the prompt that were written to it for a marked beginning."),
  }),
  output_tokens: z.int().describe("The tokens of the answer, those of reasoning included."),
  output_tokens_details: named("OutputTokensDetails", "What the answer is made of.", {
    reasoning_tokens: z.int().describe("The tokens of reasoning among `output_tokens`."),
  }),
  total_tokens: z.int().describe("The sum of both."),
});

const cacheDiagnostics = z.discriminatedUnion("type", [
  named("CacheMiss", "The caller changed a part of the prompt that was cached.", {
    type: tag("cache_miss"),
    reason: z
      .enum(["tools_changed", "input_changed", "context_compacted"])
      .describe("The first change: the tools, anything else, or a history that is much shorter."),
    cache_missed_tokens: z.int().describe("The tokens that would have been read from the cache."),
  }),
  named("CacheOutcome", "The caller's prompt explains nothing.", {
    type: z
      .enum(["cache_hit", "comparison_response_not_found", "unavailable"])
      .describe("Nothing was missed, nothing is known of the conversation so far, or the service lost the tokens."),
  }),
]);

export type CacheDiagnostics = Written<typeof cacheDiagnostics>;

const repeated = "Repeated from the request";
const used = "What was used; where neither request nor engine says, what would change nothing.";

export const response = named("Response", "A response, the reply to a request without `stream`.", {
  id: z.string().describe("The id of the response, `resp_…`. Nothing can be fetched by it."),
  object: tag("response"),
  created_at: z.int().describe("The time at which the response was begun, in seconds since the epoch."),
  status: z
    .enum(["in_progress", "completed", "incomplete", "failed"])
    .describe("How far the response is. `incomplete` is one that a limit has cut, with HTTP status 200."),
  background: z.literal(false).describe("Always `false`."),
  completed_at: z.int().nullable().describe("The time at which it was complete; null where it is not."),
  error: named("ResponseError", "Why a response failed.", {
    code: z.enum(["server_error", "rate_limit_exceeded", "context_length_exceeded"]).describe("The code of the error."),
    message: z.string().describe("What happened, for people to read."),
  })
    .nullable()
    .describe("Why a stream failed; null otherwise."),
  frequency_penalty: z.number().describe(used),
  incomplete_details: named("IncompleteDetails", "What has cut the answer.", {
    reason: z
      .enum(["max_output_tokens", "content_filter"])
      .describe("The limit that has cut the answer; the end of the window is `max_output_tokens` too."),
  })
    .nullable()
    .describe("The reason for which the answer was cut; null if it was not."),
  instructions: z.string().nullable().describe(`${repeated}.`),
  max_output_tokens: z.int().nullable().describe(`${repeated}.`),
  max_tool_calls: z.int().nullable().describe(`${repeated}.`),
  metadata: z.record(z.string(), z.string()).describe(`${repeated}.`),
  model: z.string().describe("The id of the model, however the request wrote it."),
  output: z.array(item).describe("The items of the answer; empty until it has ended."),
  output_text: z.string().optional().describe("All text of the answer, joined; absent until it has ended."),
  parallel_tool_calls: z.boolean().describe(`${repeated}; \`true\` by default.`),
  presence_penalty: z.number().describe(used),
  previous_response_id: z.string().nullable().describe("The response that a WebSocket continues; otherwise null."),
  prompt_cache_diagnostics: cacheDiagnostics
    .optional()
    .describe("Where the request has a `comparison_response_id`: why the prompt was not read from the cache."),
  prompt_cache_key: z.string().nullable().describe(`${repeated}.`),
  prompt_cache_retention: z.string().nullable().describe(`${repeated}.`),
  reasoning: named("ResponseReasoning", "What was asked for of the reasoning.", {
    effort: z.string().nullable().describe(`${repeated}.`),
    summary: z.string().nullable().describe(`${repeated}.`),
  }),
  safety_identifier: z.string().nullable().describe(`${repeated}.`),
  service_tier: tag("default"),
  store: z.literal(false).describe("Always `false`."),
  temperature: z.number().describe(used),
  text: named("ResponseText", "What was asked for of the text.", {
    format: z.looseObject({}).meta({ description: `${repeated}, with defaults filled in.` }),
  }),
  tool_choice: z.unknown().describe(`${repeated}; \`auto\` by default.`),
  tools: z.array(z.looseObject({})).describe(`${repeated}, with defaults filled in.`),
  top_logprobs: z.int().describe(`${repeated}; 0 by default.`),
  top_p: z.number().describe(used),
  truncation: tag("disabled"),
  usage: usage
    .nullable()
    .describe("The tokens of prompt and answer; null until the answer has ended, and where it failed."),
  user: z.string().nullable().describe(`${repeated}.`),
});

/** The fields of a response that repeat the request, with the defaults used. */
export type Echo = Pick<
  Written<typeof response>,
  Exclude<keyof ResponsesBody & keyof z.infer<typeof response>, "background" | "service_tier" | "store" | "truncation">
>;

export type Failure = NonNullable<Written<typeof response>["error"]>;

const keptText = named("KeptText", "A part of text.", {
  type: tag("input_text"),
  text: z.string().describe("The text."),
});

const keptImage = named("KeptImage", "An image.", {
  type: tag("input_image"),
  image_url: z.string().describe("Repeated from the request."),
  detail: z.string().describe("Repeated from the request; `auto` by default."),
});

const keptMessage = named("KeptMessage", "A message of the user, as it was.", {
  type: tag("message"),
  id: z.string().describe("The id of the item: that of the request, where it had one."),
  role: tag("user"),
  status: tag("completed"),
  content: z.array(z.discriminatedUnion("type", [keptText, keptImage])).describe("The content, as parts."),
});

export const compacted = named("CompactedResponse", "What to go on with in place of a long conversation.", {
  id: z.string().describe("The id of the reply, `resp_…`. Nothing can be fetched by it."),
  object: tag("response.compaction"),
  created_at: z.int().describe("The time at which the compaction was begun, in seconds since the epoch."),
  output: z
    .array(z.discriminatedUnion("type", [keptMessage, compactionItem]))
    .describe("The newest messages of the user, up to some 64,000 tokens together, and then the compaction."),
  usage: usage.describe("The tokens of the conversation and of its summary."),
});

export const inputTokenCount = named("InputTokenCount", "The tokens of a prompt.", {
  object: tag("response.input_tokens"),
  input_tokens: z.int().min(0).describe("The tokens of the rendered prompt, exact: tools and template included."),
});

const sequence_number = z.int().describe("Number of the event in the stream, counted from 0 without gaps.");
const item_id = z.string().describe("The id of the item.");
const output_index = z.int().describe("The place of the item in `output`.");
const content_index = z.int().describe("The place of the part in the item: 0.");
const summary_index = z.int().describe("The place of the part in the summary: 0.");
const obfuscation = z
  .string()
  .optional()
  .describe(
    "Padding that means nothing, so that the size of an event reveals little; with `include_obfuscation` only.",
  );
const part = z.discriminatedUnion("type", [outputText, reasoningText]);

/** Makes the schema of an event: `fields` stand between its type and its sequence number. */
function event<const Type extends string, Fields extends z.ZodRawShape>(
  id: string,
  type: Type,
  description: string,
  fields: Fields,
) {
  return named(id, description, { type: tag(type), ...fields, sequence_number });
}

const soFar = item.describe("The item, as far as it is.");
const partSoFar = part.describe("The part, as far as it is.");
const piece = z.string().describe("The piece.");
const wholeText = z.string().describe("The whole text.");
const partPlace = { item_id, output_index, content_index };
const summaryPlace = { item_id, output_index, summary_index };

/** The events of a stream; each is the `data` of an event named by its type. */
export const responseEvents = [
  event("ResponseCreated", "response.created", "The stream begins.", { response }),
  event("ResponseInProgress", "response.in_progress", "The answer is being made.", { response }),
  event("OutputItemAdded", "response.output_item.added", "An item begins. Items come one after the other.", {
    output_index,
    item: soFar,
  }),
  event("ContentPartAdded", "response.content_part.added", "A part of an item begins.", {
    ...partPlace,
    part: partSoFar,
  }),
  event("OutputTextDelta", "response.output_text.delta", "A piece of text.", {
    ...partPlace,
    delta: piece,
    obfuscation,
    logprobs,
  }),
  event("OutputTextDone", "response.output_text.done", "The text of a part is whole.", {
    ...partPlace,
    text: wholeText,
    logprobs,
  }),
  event("ReasoningTextDelta", "response.reasoning_text.delta", "A piece of reasoning as text.", {
    ...partPlace,
    delta: piece,
    obfuscation,
  }),
  event("ReasoningTextDone", "response.reasoning_text.done", "The reasoning is whole.", {
    ...partPlace,
    text: z.string().describe("The whole reasoning."),
  }),
  event("ContentPartDone", "response.content_part.done", "A part is whole.", { ...partPlace, part: partSoFar }),
  event("SummaryPartAdded", "response.reasoning_summary_part.added", "A part of a summary begins.", {
    ...summaryPlace,
    part: summaryText,
  }),
  event("SummaryTextDelta", "response.reasoning_summary_text.delta", "A piece of reasoning as a summary.", {
    ...summaryPlace,
    delta: piece,
    obfuscation,
  }),
  event("SummaryTextDone", "response.reasoning_summary_text.done", "The text of a summary is whole.", {
    ...summaryPlace,
    text: wholeText,
  }),
  event("SummaryPartDone", "response.reasoning_summary_part.done", "A part of a summary is whole.", {
    ...summaryPlace,
    part: summaryText,
  }),
  event("ArgumentsDelta", "response.function_call_arguments.delta", "A piece of the arguments of a function call.", {
    item_id,
    output_index,
    delta: piece,
    obfuscation,
  }),
  event("ArgumentsDone", "response.function_call_arguments.done", "The arguments of a function call are whole.", {
    item_id,
    output_index,
    name: z.string().describe("The name of the function."),
    arguments: z.string().describe("The whole arguments."),
  }),
  event("CustomInputDelta", "response.custom_tool_call_input.delta", "A piece of the text for a `custom` tool.", {
    item_id,
    output_index,
    delta: piece,
    obfuscation,
  }),
  event("CustomInputDone", "response.custom_tool_call_input.done", "The text for a `custom` tool is whole.", {
    item_id,
    output_index,
    input: wholeText,
  }),
  event("OutputItemDone", "response.output_item.done", "An item is whole, or was cut short.", {
    output_index,
    item: soFar,
  }),
  event("KeepAlive", "keepalive", "A sign of life.", {}),
  event("ResponseCompleted", "response.completed", "The answer is whole; the stream ends.", { response }),
  event("ResponseIncomplete", "response.incomplete", "A limit has cut the answer; the stream ends.", { response }),
  event("ResponseFailed", "response.failed", "The answer has failed; the stream ends.", { response }),
] as const;
