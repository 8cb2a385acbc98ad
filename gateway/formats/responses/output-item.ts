import type { TokenLogprob } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { shownCallId } from "../call-id.ts";
import type { CompletedBlock } from "../completion.ts";
import type { Head } from "../format.ts";
import type { ToolNames } from "./tool-names.ts";

/*
 * Output items ("Response object" in formats/README.md). The stream and the folded reply both make a finished item here
 * and nowhere else, so that what `response.output_item.done` announced is what the final object holds.
 */

/** What of an answer this caller asked to see. */
export type ReplyView = {
  /**
   * How reasoning is shown. `none` leaves reasoning items out: a client that did not ask sends back references that
   * nobody can resolve.
   */
  readonly reasoning: "none" | "summary" | "text";
  /** Whether a reasoning item carries a sealed copy that the caller may send back. */
  readonly sealReasoning: boolean;
  /** Whether text carries log probabilities. */
  readonly logprobs: boolean;
  /** The tools that the caller knows under another name than the model. */
  readonly toolNames: ToolNames;
  /** Whether the answer is the summary of the conversation, which the caller gets as one sealed item. */
  readonly compacts: boolean;
  /** Whether delta events are padded, so that the size of what is sent does not tell which text it is. */
  readonly obfuscate: boolean;
};

/** How far an item of the output is: being written, whole, or cut short by a limit or a failure. */
export type ItemStatus = "in_progress" | "completed" | "incomplete";

/** A token and its log probability as this format writes it, with the likeliest alternatives. */
export type Logprob = {
  /** The text of the token; a token that is part of a character shows as a replacement character. */
  readonly token: string;
  /** The bytes of the token, each from 0 to 255, which may be part of a character; empty where they are not known. */
  readonly bytes: readonly number[];
  /** The natural logarithm of the token's probability, at most 0; -9999 stands for an impossible token. */
  readonly logprob: number;
  /** The likeliest tokens at this place, likeliest first: at most as many as the request asked for, from 0 to 20. */
  readonly top_logprobs: readonly Omit<Logprob, "top_logprobs">[];
};

/** The one part of a message item. */
export type TextPart = {
  readonly type: "output_text";
  /** The visible text of the answer. */
  readonly text: string;
  /** The citations of the text, of which this service makes none: clients expect the field. */
  readonly annotations: readonly never[];
  /** The log probabilities of the text's tokens; empty where the request asked for none. */
  readonly logprobs: readonly Logprob[];
};

/** A part of a reasoning item that shows the reasoning itself, as `text`. */
export type ReasoningTextPart = { readonly type: "reasoning_text"; readonly text: string };

/**
 * A part of a reasoning item that shows the reasoning as its summary: `text` is the reasoning itself, as no summary is
 * made of it.
 */
export type SummaryPart = { readonly type: "summary_text"; readonly text: string };

/** An output item of visible text. */
export type MessageItem = {
  /** The id of the item, `msg_` and the response's own part and position. */
  readonly id: string;
  readonly type: "message";
  readonly role: "assistant";
  /** How far the item is. */
  readonly status: ItemStatus;
  /** The parts of the item: one when it is finished, none while it is announced. */
  readonly content: readonly TextPart[];
};

/** An output item of reasoning. */
export type ReasoningItem = {
  /** The id of the item, `rs_` and the response's own part and position. */
  readonly id: string;
  readonly type: "reasoning";
  /** The reasoning where the caller asked for summaries; empty where it is shown in `content`. */
  readonly summary: readonly SummaryPart[];
  /** The reasoning as it is; absent where it is shown as a summary. */
  readonly content?: readonly ReasoningTextPart[];
  /** The sealed copy of the reasoning; absent where the caller did not ask for one. */
  readonly encrypted_content?: string;
  /** How far the item is. */
  readonly status: ItemStatus;
};

/** An output item of one tool call. */
export type FunctionCallItem = {
  /** The id of the item, `fc_` and the response's own part and position; calls are answered by `call_id`. */
  readonly id: string;
  readonly type: "function_call";
  /** How far the item is. */
  readonly status: ItemStatus;
  /** The id of the call, which the caller's `function_call_output` names. */
  readonly call_id: string;
  /** The namespace of the tool; absent for a tool that was declared outside one. */
  readonly namespace?: string;
  /** The name of the tool as the caller declared it, without the namespace. */
  readonly name: string;
  /** The arguments as JSON text: the model's own words, of which an item that is cut short holds what there is. */
  readonly arguments: string;
};

/** An output item of what the model made of one block. */
export type BlockItem = MessageItem | ReasoningItem | FunctionCallItem;

/** An output item that stands for a whole conversation: the summary of it, which only this service can read. */
export type CompactionItem = {
  /** The id of the item, `cmp_` and the response's own part and position. */
  readonly id: string;
  readonly type: "compaction";
  /** The sealed summary. */
  readonly encrypted_content: string;
};

/** One item of a response's `output`. */
export type OutputItem = BlockItem | CompactionItem;

const ID_PREFIX = { text: "msg", reasoning: "rs", toolCall: "fc" } as const satisfies Record<
  CompletedBlock["kind"],
  string
>;

/**
 * Returns the id of an item, which is the same for the same reply and place in `output`, however the answer is
 * delivered.
 */
export function itemId(head: Head, position: number, kind: CompletedBlock["kind"]): string {
  return `${ID_PREFIX[kind]}_${head.replyId}_${position}`;
}

/**
 * Makes the finished item of one block; undefined for a block that this caller does not see. `position` is the place of
 * the item in `output`. Sealing draws random bytes, so a finished item is made once and kept.
 */
export function finishedItem(
  head: Head,
  position: number,
  block: CompletedBlock,
  view: ReplyView,
): BlockItem | undefined {
  const id = itemId(head, position, block.kind);
  const status: ItemStatus = block.complete ? "completed" : "incomplete";
  switch (block.kind) {
    case "text":
      return { id, type: "message", role: "assistant", status, content: [textPart(block.text, logprobs(block, view))] };
    case "reasoning": {
      if (view.reasoning === "none" || block.text === "") return undefined;
      const sealed = view.sealReasoning ? { encrypted_content: head.sealer.seal(block.text) } : {};
      return { id, type: "reasoning", ...shownReasoning(block.text, view.reasoning), ...sealed, status };
    }
    case "toolCall": {
      const declared = callerName(block.name, view);
      const callId = shownCallId("call_", block.callId, head);
      return { id, type: "function_call", status, call_id: callId, ...declared, arguments: argumentsOf(block) };
    }
    default:
      return block satisfies never;
  }
}

/** Makes the one part of a message item out of its text and the log probabilities of its tokens. */
export function textPart(text: string, logprobs: readonly Logprob[]): TextPart {
  return { type: "output_text", text, annotations: [], logprobs };
}

/** Returns the name and the namespace under which the caller declared the tool that the model calls `modelName`. */
export function callerName(modelName: string, view: ReplyView): { readonly namespace?: string; readonly name: string } {
  return view.toolNames.get(modelName) ?? { name: modelName };
}

/**
 * Returns the arguments of a call. One that needs none may come without text; clients parse the text, so it becomes an
 * empty object.
 */
export function argumentsOf(block: { readonly complete: boolean; readonly argumentsJson: string }): string {
  return block.complete && block.argumentsJson === "" ? "{}" : block.argumentsJson;
}

/** Writes the log probabilities of tokens as this format has them. */
export function toLogprobs(tokens: readonly TokenLogprob[]): readonly Logprob[] {
  return tokens.map((token) => ({ ...oneLogprob(token), top_logprobs: token.alternatives.map(oneLogprob) }));
}

function logprobs(block: { readonly logprobs: readonly TokenLogprob[] }, view: ReplyView): readonly Logprob[] {
  return view.logprobs ? toLogprobs(block.logprobs) : [];
}

function shownReasoning(
  text: string,
  as: "summary" | "text",
): { readonly summary: readonly SummaryPart[]; readonly content?: readonly ReasoningTextPart[] } {
  return as === "summary"
    ? { summary: [{ type: "summary_text", text }] }
    : { summary: [], content: [{ type: "reasoning_text", text }] };
}

/** The log probability of an impossible token, far below every real one, as JSON has no infinity. */
const IMPOSSIBLE_LOGPROB = -9999;

function oneLogprob(token: { readonly token: string; readonly tokenBytes: Uint8Array; readonly logprob: number }) {
  return {
    token: token.token,
    bytes: [...token.tokenBytes],
    logprob: Number.isFinite(token.logprob) ? token.logprob : IMPOSSIBLE_LOGPROB,
  };
}
