import type { TokenLogprob } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { CompletedBlock } from "../completion.ts";
import type { Head } from "../format.ts";
import type { ToolNames } from "./tool-names.ts";

/*
 * Output items ("Response object" in formats/README.md). The stream and the folded reply both make a finished item here and nowhere else, so that
 * what `response.output_item.done` announced is what the final object holds.
 */

/** What of an answer this caller asked to see. */
export type ReplyView = {
  /** `none` leaves reasoning items out: a client that did not ask sends back references that nobody can resolve. */
  readonly reasoning: "none" | "summary" | "text";
  /** Whether a reasoning item carries a sealed copy that the caller may send back. */
  readonly sealReasoning: boolean;
  readonly logprobs: boolean;
  /** Tools that the caller knows under another name than the model. */
  readonly toolNames: ToolNames;
};

export type ItemStatus = "in_progress" | "completed" | "incomplete";

export type Logprob = {
  readonly token: string;
  readonly bytes: readonly number[];
  readonly logprob: number;
  readonly top_logprobs: readonly Omit<Logprob, "top_logprobs">[];
};

export type TextPart = {
  readonly type: "output_text";
  readonly text: string;
  readonly annotations: readonly never[];
  readonly logprobs: readonly Logprob[];
};

export type ReasoningTextPart = { readonly type: "reasoning_text"; readonly text: string };

export type SummaryPart = { readonly type: "summary_text"; readonly text: string };

export type MessageItem = {
  readonly id: string;
  readonly type: "message";
  readonly role: "assistant";
  readonly status: ItemStatus;
  readonly content: readonly TextPart[];
};

export type ReasoningItem = {
  readonly id: string;
  readonly type: "reasoning";
  readonly summary: readonly SummaryPart[];
  /** Present where reasoning is shown as it is, absent where it is shown as a summary. */
  readonly content?: readonly ReasoningTextPart[];
  readonly encrypted_content?: string;
  readonly status: ItemStatus;
};

export type FunctionCallItem = {
  readonly id: string;
  readonly type: "function_call";
  readonly status: ItemStatus;
  readonly call_id: string;
  /** Set only for a tool that was declared inside a namespace. */
  readonly namespace?: string;
  readonly name: string;
  readonly arguments: string;
};

export type OutputItem = MessageItem | ReasoningItem | FunctionCallItem;

const ID_PREFIX = { text: "msg", reasoning: "rs", toolCall: "fc" } as const satisfies Record<
  CompletedBlock["kind"],
  string
>;

/** The same for the same reply and place in `output`, however the answer is delivered. */
export function itemId(head: Head, position: number, kind: CompletedBlock["kind"]): string {
  return `${ID_PREFIX[kind]}_${head.replyId}_${position}`;
}

/**
 * The finished item of one block, or undefined for a block that this caller does not see. `position` is the place of the
 * item in `output`. Sealing uses chance, so a finished item is made once and kept.
 */
export function finishedItem(
  head: Head,
  position: number,
  block: CompletedBlock,
  view: ReplyView,
): OutputItem | undefined {
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
      return { id, type: "function_call", status, call_id: block.callId, ...declared, arguments: argumentsOf(block) };
    }
    default:
      return block satisfies never;
  }
}

export function textPart(text: string, logprobs: readonly Logprob[]): TextPart {
  return { type: "output_text", text, annotations: [], logprobs };
}

/** The tool as the caller declared it. */
export function callerName(modelName: string, view: ReplyView): { readonly namespace?: string; readonly name: string } {
  return view.toolNames.get(modelName) ?? { name: modelName };
}

/** A call that needs no arguments may come without text; clients parse the text, so it becomes an empty object. */
export function argumentsOf(block: { readonly complete: boolean; readonly argumentsJson: string }): string {
  return block.complete && block.argumentsJson === "" ? "{}" : block.argumentsJson;
}

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

/** JSON has no infinity: an impossible token gets a number far below every real one. */
const IMPOSSIBLE_LOGPROB = -9999;

function oneLogprob(token: { readonly token: string; readonly tokenBytes: Uint8Array; readonly logprob: number }) {
  return {
    token: token.token,
    bytes: [...token.tokenBytes],
    logprob: Number.isFinite(token.logprob) ? token.logprob : IMPOSSIBLE_LOGPROB,
  };
}
