import { isDeepStrictEqual } from "node:util";
import { must, StreamFault } from "./machine.ts";
import { asId, asPiece, asText, exactKeys, isObjectText, type JsonObject, onlyObject } from "./shape.ts";

export type ReasoningAsked = {
  readonly reasoning: "none" | "summary" | "text";
  /** Whether finished reasoning items carry a sealed copy. */
  readonly sealed: boolean;
};

export type OpenItem = {
  readonly added: JsonObject;
  readonly id: string;
  readonly outputIndex: number;
  text: string;
};

export type ItemKind = "message" | "reasoning" | "call";

/** Returns the kind of the announced item. Throws `StreamFault` when it is not the empty form of one. */
export function announcedKind(item: JsonObject, asked: ReasoningAsked): ItemKind {
  must(item.status === "in_progress", "an item is announced in progress");
  switch (item.type) {
    case "message":
      exactKeys(item, ["id", "type", "role", "status", "content"]);
      asId(item.id, "msg_");
      must(item.role === "assistant", "the role is assistant");
      must(isDeepStrictEqual(item.content, []), "a message begins without content");
      return "message";
    case "reasoning":
      must(asked.reasoning !== "none", "no reasoning item where none was asked for");
      exactKeys(item, ["id", "type", "summary", "status", ...(asked.reasoning === "text" ? ["content"] : [])]);
      asId(item.id, "rs_");
      must(isDeepStrictEqual(item.summary, []), "reasoning begins without a summary");
      must(isDeepStrictEqual(item.content ?? [], []), "reasoning begins without content");
      return "reasoning";
    case "function_call": {
      exactKeys(item, ["id", "type", "status", "call_id", "name", "arguments"], ["namespace"]);
      const id = asId(item.id, "fc_");
      must(asId(item.call_id, "call_") !== id, "call_id is not the id of the item");
      asPiece(item.name, "name");
      must(item.arguments === "", "a call begins without arguments");
      return "call";
    }
    default:
      throw new StreamFault("the item is of a known kind");
  }
}

/** Throws `StreamFault` unless the finished item is the announced one with the text of its deltas. */
export function checkFinishedItem(item: JsonObject, open: OpenItem, asked: ReasoningAsked): void {
  const { status } = item;
  must(status === "completed" || status === "incomplete", "a finished item is completed or incomplete");
  must(item.id === open.id && item.type === open.added.type, "an item keeps its id and type");
  switch (item.type) {
    case "message": {
      const part = onlyObject(item.content, "content");
      checkPart(part, "output_text", open.text);
      must(isDeepStrictEqual(item, { ...open.added, status, content: [part] }), "a message keeps its fields");
      return;
    }
    case "reasoning":
      checkReasoning(item, open, asked);
      return;
    default:
      must(
        isDeepStrictEqual(item, { ...open.added, status, arguments: open.text }),
        "a call keeps its fields and has the arguments of its deltas",
      );
      must(status === "incomplete" || isObjectText(open.text), "the arguments of a whole call are a JSON object");
  }
}

function checkReasoning(item: JsonObject, open: OpenItem, asked: ReasoningAsked): void {
  const raw = asked.reasoning === "text";
  const keys = ["id", "type", "summary", "status", ...(raw ? ["content"] : [])];
  exactKeys(item, asked.sealed ? [...keys, "encrypted_content"] : keys);
  if (asked.sealed) asPiece(item.encrypted_content, "encrypted_content");
  if (raw) must(isDeepStrictEqual(item.summary, []), "raw reasoning has no summary");
  const part = raw ? onlyObject(item.content, "content") : onlyObject(item.summary, "summary");
  checkPart(part, raw ? "reasoning_text" : "summary_text", asPiece(open.text, "reasoning"));
}

export type PartType = "output_text" | "summary_text" | "reasoning_text";

/** Throws `StreamFault` unless the part is of this type and has this text. */
export function checkPart(part: JsonObject, type: PartType, text: string): void {
  must(part.type === type, "the part is of the item's kind");
  exactKeys(part, type === "output_text" ? ["type", "text", "annotations", "logprobs"] : ["type", "text"]);
  must(asText(part.text, "text") === text, "the text of the part is that of its deltas");
  if (type !== "output_text") return;
  must(isDeepStrictEqual(part.annotations, []), "there are no annotations");
  must(Array.isArray(part.logprobs), "logprobs is a list");
}
