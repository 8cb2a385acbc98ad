import type { AlternativeLogprob, TokenLogprob } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { parseArguments } from "../../json/json-text.ts";
import { type CompletedBlock, type OpenBlock, shownCallId } from "../completion.ts";
import type { Head } from "../format.ts";
import { framePieces, HOLE } from "../sse.ts";
import { CustomInput, customInput } from "./custom-input.ts";
import type { BlockItem, Logprob } from "./reply-schema.ts";
import type { DeclaredTool, ToolNames } from "./tools.ts";
import { vendorCall } from "./vendor-tools.ts";

/*
 * Output items ("Response object" in formats/README.md). The stream and the folded reply both make a finished item here
 * and only here, so that the final object holds exactly the items that `response.output_item.done` announced.
 */

/** The parts of an answer that this caller requested. */
export type ReplyView = {
  /** `none` leaves reasoning items out: a client that did not request them sends back references to nothing. */
  readonly reasoning: "none" | "summary" | "text";
  readonly sealReasoning: boolean;
  readonly logprobs: boolean;
  readonly toolNames: ToolNames;
  /** Whether the answer is the summary of the conversation, as one sealed item. */
  readonly compacts: boolean;
  /** Whether the reply is to say why the cache was missed. */
  readonly diagnosed: boolean;
  /** Whether delta events are padded, so that their size does not reveal the text. */
  readonly obfuscate: boolean;
};

const ID_PREFIX = {
  message: "msg",
  reasoning: "rs",
  function_call: "fc",
  custom_tool_call: "ctc",
  tool_search_call: "tsc",
  shell_call: "sh",
  local_shell_call: "lsh",
  apply_patch_call: "apc",
} as const satisfies Record<BlockItem["type"], string>;

function itemId(head: Head, position: number, type: BlockItem["type"]): string {
  return `${ID_PREFIX[type]}_${head.replyId}_${position}`;
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
  const status = block.complete ? "completed" : "incomplete";
  switch (block.kind) {
    case "text": {
      const logprobs = view.logprobs ? toLogprobs(block.logprobs) : [];
      const part = { type: "output_text", text: block.text, annotations: [], logprobs } as const;
      return { id: itemId(head, position, "message"), type: "message", role: "assistant", status, content: [part] };
    }
    case "reasoning": {
      const { text } = block;
      if (view.reasoning === "none" || text === "") return undefined;
      const id = itemId(head, position, "reasoning");
      const sealed = view.sealReasoning ? { encrypted_content: head.sealer.seal(text) } : {};
      return view.reasoning === "summary"
        ? { id, type: "reasoning", summary: [{ type: "summary_text", text }], ...sealed, status }
        : { id, type: "reasoning", summary: [], content: [{ type: "reasoning_text", text }], ...sealed, status };
    }
    case "toolCall":
      return callItem(head, position, block, { status, argumentsJson: block.argumentsJson }, view);
    default:
      return block satisfies never;
  }
}

function announcedItem(head: Head, position: number, block: OpenBlock["block"], view: ReplyView): BlockItem {
  const status = "in_progress";
  switch (block.$case) {
    case "text":
      return { id: itemId(head, position, "message"), type: "message", role: "assistant", status, content: [] };
    case "reasoning": {
      const content = view.reasoning !== "summary" && { content: [] };
      return { id: itemId(head, position, "reasoning"), type: "reasoning", summary: [], ...content, status };
    }
    case "toolCall":
      return callItem(head, position, block.value, { status, argumentsJson: "" }, view);
    default:
      return block satisfies never;
  }
}

type ShownCall = {
  readonly status: "in_progress" | "completed" | "incomplete";
  readonly argumentsJson: string;
};

/** Returns the item of a call under the name and namespace with which the caller declared its tool. */
function callItem(
  head: Head,
  position: number,
  { callId, name: known }: { readonly callId: string; readonly name: string },
  { status, argumentsJson }: ShownCall,
  { toolNames }: ReplyView,
): BlockItem {
  const { kind, name, namespace }: DeclaredTool = toolNames.get(known) ?? { kind: "function", name: known };
  const called = { call_id: shownCallId("call_", callId, head), ...(namespace !== undefined && { namespace }), name };
  if (kind === "custom") {
    const input = customInput(argumentsJson, status === "completed");
    return { id: itemId(head, position, "custom_tool_call"), type: "custom_tool_call", status, ...called, input };
  }
  if (kind === "tool_search") {
    const object = status === "incomplete" ? undefined : parseArguments(argumentsJson);
    const shown = { call_id: called.call_id, execution: "client", arguments: object ?? argumentsJson } as const;
    return { id: itemId(head, position, "tool_search_call"), type: "tool_search_call", status, ...shown };
  }
  if (kind === "shell" || kind === "local_shell" || kind === "apply_patch") {
    const id = itemId(head, position, `${kind}_call`);
    const given = status === "completed" ? parseArguments(argumentsJson) : undefined;
    return vendorCall(kind, { id, status, call_id: called.call_id }, given);
  }
  // Clients parse the text, so that of a call without arguments becomes an empty object.
  const text = status === "completed" && argumentsJson === "" ? "{}" : argumentsJson;
  return { id: itemId(head, position, "function_call"), type: "function_call", status, ...called, arguments: text };
}

export function toLogprobs(tokens: readonly TokenLogprob[]): readonly Logprob[] {
  return tokens.map((token) => ({ ...oneLogprob(token), top_logprobs: token.alternatives.map(oneLogprob) }));
}

/** JSON has no infinity. */
const IMPOSSIBLE_LOGPROB = -9999;

function oneLogprob({ token, tokenBytes, logprob }: AlternativeLogprob) {
  return { token, bytes: [...tokenBytes], logprob: Number.isFinite(logprob) ? logprob : IMPOSSIBLE_LOGPROB };
}

/** An event without its sequence number, which the stream adds. */
export type ItemEvent = { readonly type: string; readonly fields: object };

/** The events of one item ("Events of responses" in formats/README.md). */
export type ItemFrames = {
  readonly opening: readonly ItemEvent[];
  readonly deltaType: string;
  /** How the pieces of the block become deltas: as they are, by taking the text out of them, or not at all. */
  readonly shows: "pieces" | "nothing" | CustomInput;
  /** The fields that every event inside the item repeats. */
  readonly place: object;
  /** The delta's JSON text goes between `before` and `between`, its sequence number between `between` and `after`. */
  readonly delta: { readonly before: string; readonly between: string; readonly after: string };
  /** Returns the events that close the item, given its finished form. */
  closing(item: BlockItem): readonly ItemEvent[];
};

/** The kinds of items differ in names and payloads only; the order of their events is the same. */
type Form = {
  /** The name of the events about the text; undefined for items without such events. */
  readonly text: string | undefined;
  /** The name of the events about the part, and the empty part; undefined for items without parts. */
  readonly part: readonly [name: string, empty: object] | undefined;
  readonly index: object;
};

const WHOLE: Form = { text: undefined, part: undefined, index: {} };

const FORMS: Readonly<Record<BlockItem["type"] | "summary", Form>> = {
  message: {
    text: "response.output_text",
    part: ["response.content_part", { type: "output_text", text: "", annotations: [], logprobs: [] }],
    index: { content_index: 0 },
  },
  reasoning: {
    text: "response.reasoning_text",
    part: ["response.content_part", { type: "reasoning_text", text: "" }],
    index: { content_index: 0 },
  },
  summary: {
    text: "response.reasoning_summary_text",
    part: ["response.reasoning_summary_part", { type: "summary_text", text: "" }],
    index: { summary_index: 0 },
  },
  function_call: { text: "response.function_call_arguments", part: undefined, index: {} },
  custom_tool_call: { text: "response.custom_tool_call_input", part: undefined, index: {} },
  tool_search_call: WHOLE,
  shell_call: WHOLE,
  local_shell_call: WHOLE,
  apply_patch_call: WHOLE,
};

/** `position` is the item's `output_index`. */
export function itemFrames(head: Head, position: number, block: OpenBlock["block"], view: ReplyView): ItemFrames {
  const item = announcedItem(head, position, block, view);
  const isSummary = block.$case === "reasoning" && view.reasoning === "summary";
  const { text, part, index } = FORMS[isSummary ? "summary" : item.type];
  const place = { item_id: item.id, output_index: position, ...index };
  const added = { type: "response.output_item.added", fields: { output_index: position, item } };
  const deltaType = `${text}.delta`;
  const more = block.$case === "text" ? { logprobs: [] } : {};
  const template = { type: deltaType, ...place, delta: HOLE, ...more, sequence_number: HOLE };
  const [before = "", between = "", after = ""] = framePieces(deltaType, template);
  return {
    opening: part ? [added, { type: `${part[0]}.added`, fields: { ...place, part: part[1] } }] : [added],
    deltaType,
    shows: item.type === "custom_tool_call" ? new CustomInput() : text === undefined ? "nothing" : "pieces",
    place,
    delta: { before, between, after },
    closing(finished) {
      const { payload, part: whole } = closingForm(finished);
      return [
        ...(text === undefined ? [] : [{ type: `${text}.done`, fields: { ...place, ...payload } }]),
        ...(part ? [{ type: `${part[0]}.done`, fields: { ...place, part: whole } }] : []),
        { type: "response.output_item.done", fields: { output_index: position, item: finished } },
      ];
    },
  };
}

function closingForm(item: BlockItem): { readonly payload: object; readonly part?: object | undefined } {
  if (item.type === "function_call") return { payload: { name: item.name, arguments: item.arguments } };
  if (item.type === "custom_tool_call") return { payload: { input: item.input } };
  if (item.type === "message") {
    const [part] = item.content;
    return { payload: { text: part?.text ?? "", logprobs: part?.logprobs ?? [] }, part };
  }
  if (item.type !== "reasoning") return { payload: {} };
  const part = item.content?.[0] ?? item.summary[0];
  return { payload: { text: part?.text ?? "" }, part };
}
