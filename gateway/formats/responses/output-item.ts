import type { TokenLogprob } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type CompletedBlock, shownCallId } from "../completion.ts";
import type { Head } from "../format.ts";
import { framePieces, HOLE } from "../sse.ts";
import type { BlockItem, Logprob, ReasoningItem, TextPart } from "./reply-schema.ts";
import type { ToolNames } from "./tools.ts";

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

/*
 * The form of the events of one item ("Events of responses" in formats/README.md). The kinds differ in names and
 * payloads only; their order is the same, so the stream walks one description of them.
 */

/** The facts of a block at its start: its kind, and of a call its id and the model's name of the tool. */
export type BlockHead =
  | { readonly kind: "text" }
  | { readonly kind: "reasoning" }
  | { readonly kind: "toolCall"; readonly callId: string; readonly name: string };

/**
 * An event about an item: its type, and the fields that differ by kind of item. The sender adds the sequence number.
 */
export type ItemEvent = { readonly type: string; readonly fields: object };

/**
 * The constant texts of the delta events of an item: the delta's JSON text goes between `before` and `between`, its
 * sequence number between `between` and `after`.
 */
export type DeltaFrame = { readonly before: string; readonly between: string; readonly after: string };

/** The events of one item. */
export type ItemFrames = {
  /** The events that announce the item. */
  readonly opening: readonly ItemEvent[];
  readonly deltaType: string;
  /** The fields that every event inside the item repeats: the ids and indexes of the item and of its part, if any. */
  readonly place: object;
  /** Returns the events that close the item, given its finished form. */
  closing(item: BlockItem): readonly ItemEvent[];
};

type Kind = "text" | "summary" | "reasoningText" | "call";

type Names = {
  /** The prefix of the events about the part; undefined for items that have no parts. */
  readonly part: string | undefined;
  /** The prefix of the events about the part's text. */
  readonly text: string;
  readonly index: object;
};

const NAMES: Readonly<Record<Kind, Names>> = {
  text: { part: "response.content_part", text: "response.output_text", index: { content_index: 0 } },
  reasoningText: { part: "response.content_part", text: "response.reasoning_text", index: { content_index: 0 } },
  summary: {
    part: "response.reasoning_summary_part",
    text: "response.reasoning_summary_text",
    index: { summary_index: 0 },
  },
  call: { part: undefined, text: "response.function_call_arguments", index: {} },
};

/** Describes the item of a block. `position` is the item's `output_index`. */
export function itemFrames(head: Head, position: number, block: BlockHead, view: ReplyView): ItemFrames {
  const names = NAMES[kindOf(block, view)];
  const id = itemId(head, position, block.kind);
  const place = { item_id: id, output_index: position, ...names.index };
  const { item, part } = emptyForm(head, id, block, view);
  const added = { type: "response.output_item.added", fields: { output_index: position, item } };
  return {
    opening: names.part === undefined ? [added] : [added, { type: `${names.part}.added`, fields: { ...place, part } }],
    deltaType: `${names.text}.delta`,
    place,
    closing: (finished) => {
      const { part: whole, payload } = finishedForm(finished);
      const partDone =
        names.part === undefined ? [] : [{ type: `${names.part}.done`, fields: { ...place, part: whole } }];
      return [
        { type: `${names.text}.done`, fields: { ...place, ...payload } },
        ...partDone,
        { type: "response.output_item.done", fields: { output_index: position, item: finished } },
      ];
    },
  };
}

/** Formats the delta event of an item once, so that a delta only costs the escaping of its text. */
export function deltaFrame(frames: ItemFrames): DeltaFrame {
  const type = frames.deltaType;
  const logprobs = type === "response.output_text.delta" ? { logprobs: [] } : {};
  const template = { type, ...frames.place, delta: HOLE, ...logprobs, sequence_number: HOLE };
  const [before = "", between = "", after = ""] = framePieces(type, template);
  return { before, between, after };
}

function kindOf(block: BlockHead, view: ReplyView): Kind {
  if (block.kind === "reasoning") return view.reasoning === "summary" ? "summary" : "reasoningText";
  return block.kind === "text" ? "text" : "call";
}

/** Returns the announced form of the item, and its part if it has one. */
function emptyForm(
  head: Head,
  id: string,
  block: BlockHead,
  view: ReplyView,
): { readonly item: BlockItem; readonly part?: object } {
  const status = "in_progress";
  switch (block.kind) {
    case "text":
      return { item: { id, type: "message", role: "assistant", status, content: [] }, part: textPart("", []) };
    case "reasoning":
      return view.reasoning === "summary"
        ? { item: { id, type: "reasoning", summary: [], status }, part: { type: "summary_text", text: "" } }
        : {
            item: { id, type: "reasoning", summary: [], content: [], status },
            part: { type: "reasoning_text", text: "" },
          };
    case "toolCall": {
      const names = callerName(block.name, view);
      const callId = shownCallId("call_", block.callId, head);
      return { item: { id, type: "function_call", status, call_id: callId, ...names, arguments: "" } };
    }
    default:
      return block satisfies never;
  }
}

/**
 * Returns the parts of the finished item that the closing events repeat: the payload of the text's event, and the part.
 */
function finishedForm(item: BlockItem): { readonly payload: object; readonly part?: object | undefined } {
  switch (item.type) {
    case "message": {
      const part = item.content[0];
      return { payload: { text: part?.text ?? "", logprobs: part?.logprobs ?? [] }, part };
    }
    case "reasoning": {
      const part = item.content?.[0] ?? item.summary[0];
      return { payload: { text: part?.text ?? "" }, part };
    }
    case "function_call":
      return { payload: { name: item.name, arguments: item.arguments } };
    default:
      return item satisfies never;
  }
}
