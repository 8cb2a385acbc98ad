import type { TokenLogprob } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { shownCallId } from "../call-id.ts";
import type { CompletedBlock } from "../completion.ts";
import type { Head } from "../format.ts";
import type { BlockItem, Logprob, ReasoningItem, TextPart } from "./reply-schema.ts";
import type { ToolNames } from "./tool-names.ts";

/*
 * Output items ("Response object" in formats/README.md). The stream and the folded reply both make a finished item here
 * and only here, so that the final object holds exactly the items that `response.output_item.done` announced.
 */

/** The parts of an answer that this caller requested. */
export type ReplyView = {
  /**
   * The form in which reasoning is shown. `none` leaves reasoning items out: a client that did not request them sends
   * back references that cannot be resolved.
   */
  readonly reasoning: "none" | "summary" | "text";
  /** Whether a reasoning item carries a sealed copy that the caller may send back. */
  readonly sealReasoning: boolean;
  readonly logprobs: boolean;
  /** The tools whose caller's name differs from the model's name. */
  readonly toolNames: ToolNames;
  /** Whether the answer is the summary of the conversation, sent to the caller as one sealed item. */
  readonly compacts: boolean;
  /** Whether delta events are padded, so that their size does not reveal the text. */
  readonly obfuscate: boolean;
};

const ID_PREFIX = { text: "msg", reasoning: "rs", toolCall: "fc" } as const satisfies Record<
  CompletedBlock["kind"],
  string
>;

/** Returns the id of an item, which is the same for the same reply and index in `output`, streamed and folded. */
export function itemId(head: Head, position: number, kind: CompletedBlock["kind"]): string {
  return `${ID_PREFIX[kind]}_${head.replyId}_${position}`;
}

/**
 * Makes the finished item of one block; undefined for a block that is hidden from this caller. `position` is the index
 * of the item in `output`. Sealing draws random bytes, so a finished item is made once and kept.
 */
export function finishedItem(
  head: Head,
  position: number,
  block: CompletedBlock,
  view: ReplyView,
): BlockItem | undefined {
  const id = itemId(head, position, block.kind);
  const status = block.complete ? "completed" : "incomplete";
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

export function textPart(text: string, logprobs: readonly Logprob[]): TextPart {
  return { type: "output_text", text, annotations: [], logprobs };
}

/** Returns the name and the namespace under which the caller declared the tool that the model calls `modelName`. */
export function callerName(modelName: string, view: ReplyView): { readonly namespace?: string; readonly name: string } {
  return view.toolNames.get(modelName) ?? { name: modelName };
}

/**
 * Returns the arguments of a call. Without parameters the text may be empty; clients parse the text, so it becomes an
 * empty object.
 */
export function argumentsOf(block: { readonly complete: boolean; readonly argumentsJson: string }): string {
  return block.complete && block.argumentsJson === "" ? "{}" : block.argumentsJson;
}

export function toLogprobs(tokens: readonly TokenLogprob[]): readonly Logprob[] {
  return tokens.map((token) => ({ ...oneLogprob(token), top_logprobs: token.alternatives.map(oneLogprob) }));
}

function logprobs(block: { readonly logprobs: readonly TokenLogprob[] }, view: ReplyView): readonly Logprob[] {
  return view.logprobs ? toLogprobs(block.logprobs) : [];
}

function shownReasoning(text: string, as: "summary" | "text"): Pick<ReasoningItem, "summary" | "content"> {
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
