import { isDeepStrictEqual } from "node:util";
import { type Frame, typedData } from "./frames.ts";
import { Machine, must, StreamFault } from "./machine.ts";
import {
  announcedKind,
  checkFinishedItem,
  checkPart,
  type OpenItem,
  type PartType,
  type ReasoningAsked,
} from "./response-item-check.ts";
import { checkedIdentity, checkFinal, checkInProgress } from "./response-object-check.ts";
import {
  RESPONSES_TRANSITIONS,
  type ResponsesKind,
  type ResponsesState,
  type ResponsesTextKind,
} from "./responses-transitions.ts";
import { asObject, asPiece, asText, exactKeys, type JsonObject } from "./shape.ts";

/** The position of an event inside its item; a call has no parts. */
const CONTENT_PLACE = { content_index: 0 };
const SUMMARY_PLACE = { summary_index: 0 };

/** Accepts exactly the streams of the responses format. */
export class ResponsesChecker {
  readonly #machine: Machine<ResponsesState, ResponsesKind>;
  readonly #asked: ReasoningAsked;
  readonly #items: JsonObject[] = [];
  #identity: string | undefined;
  #sequenceNumber = 0;
  #open: OpenItem | undefined;

  constructor(asked: ReasoningAsked, taken: Set<string> = new Set()) {
    this.#machine = new Machine<ResponsesState, ResponsesKind>(RESPONSES_TRANSITIONS, "start", taken);
    this.#asked = asked;
  }

  /** Takes the next frame. Throws `StreamFault` for one that is not allowed here or malformed. */
  take(frame: Frame): void {
    const { type, sequence_number, ...fields } = typedData(frame);
    must(sequence_number === this.#sequenceNumber, "sequence numbers are dense");
    this.#sequenceNumber += 1;
    switch (type) {
      case "keepalive":
        exactKeys(fields, []);
        this.#machine.step(type);
        return;
      case "response.created":
      case "response.in_progress":
      case "response.completed":
      case "response.incomplete":
      case "response.failed":
        this.#lifecycle(type, fields);
        return;
      case "response.output_item.added":
        this.#itemAdded(fields);
        return;
      case "response.output_item.done":
        this.#itemDone(fields);
        return;
      case "response.content_part.added":
      case "response.content_part.done":
        this.#contentPart(type, fields);
        return;
      case "response.reasoning_summary_part.added":
      case "response.reasoning_summary_part.done":
        this.#part(fields, SUMMARY_PLACE, "summary_text", type.endsWith("added"));
        this.#machine.step(type);
        return;
      case "response.output_text.delta":
      case "response.output_text.done":
        must(Array.isArray(fields.logprobs), "logprobs is a list");
        this.#text(type, fields, { ...CONTENT_PLACE, logprobs: fields.logprobs });
        return;
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_summary_text.done":
        this.#text(type, fields, SUMMARY_PLACE);
        return;
      case "response.reasoning_text.delta":
      case "response.reasoning_text.done":
        this.#text(type, fields, CONTENT_PLACE);
        return;
      case "response.function_call_arguments.delta":
      case "response.function_call_arguments.done":
        this.#text(type, fields, {});
        return;
      default:
        throw new StreamFault("every event type is one of the format's");
    }
  }

  /** Ends the stream. Throws `StreamFault` if the end is not allowed here. */
  end(): void {
    const { state } = this.#machine;
    const over = state === "completed" || state === "incomplete" || state === "failed";
    must(over, "a stream ends with its terminal event");
  }

  #lifecycle(
    type: `response.${"created" | "in_progress" | "completed" | "incomplete" | "failed"}`,
    fields: JsonObject,
  ): void {
    exactKeys(fields, ["response"]);
    const response = asObject(fields.response, "response");
    const identity = checkedIdentity(response);
    this.#identity ??= identity;
    must(this.#identity === identity, "what repeats the request is the same in every event");
    if (type === "response.created" || type === "response.in_progress") checkInProgress(response);
    else checkFinal(response, type.slice("response.".length), this.#items, this.#open, this.#asked);
    this.#machine.step(type);
  }

  #itemAdded(fields: JsonObject): void {
    exactKeys(fields, ["output_index", "item"]);
    must(fields.output_index === this.#items.length, "items come in the order of their index");
    const added = asObject(fields.item, "item");
    const kind = announcedKind(added, this.#asked);
    const id = asPiece(added.id, "id");
    must(!this.#items.some((item) => item.id === id), "every item has an id of its own");
    must(
      kind !== "call" || !this.#items.some((item) => item.call_id === added.call_id),
      "every call has an id of its own",
    );
    this.#machine.step(`response.output_item.added ${kind}`);
    this.#open = { added, id, outputIndex: this.#items.length, text: "" };
  }

  #itemDone(fields: JsonObject): void {
    exactKeys(fields, ["output_index", "item"]);
    const open = this.#openItem();
    must(fields.output_index === open.outputIndex, "output_index is that of the item");
    const item = asObject(fields.item, "item");
    checkFinishedItem(item, open, this.#asked);
    this.#machine.step("response.output_item.done");
    this.#items.push(item);
    this.#open = undefined;
  }

  #contentPart(type: `response.content_part.${"added" | "done"}`, fields: JsonObject): void {
    const partType = this.#openItem().added.type === "message" ? "output_text" : "reasoning_text";
    must(partType === "output_text" || this.#asked.reasoning === "text", "raw reasoning only where it was asked for");
    this.#part(fields, CONTENT_PLACE, partType, type.endsWith("added"));
    this.#machine.step(`${type} ${partType}`);
  }

  #part(fields: JsonObject, place: JsonObject, partType: PartType, added: boolean): void {
    const open = this.#openItem();
    must(partType !== "summary_text" || this.#asked.reasoning === "summary", "a summary only where it was asked for");
    const part = asObject(fields.part, "part");
    checkPart(part, partType, added ? "" : open.text);
    this.#at(fields, { ...place, part });
  }

  #text(type: ResponsesTextKind, fields: JsonObject, place: JsonObject): void {
    const open = this.#openItem();
    if (type.endsWith(".delta")) {
      const delta = asPiece(fields.delta, "delta");
      this.#at(fields, { ...place, delta });
      open.text += delta;
    } else if (type === "response.function_call_arguments.done") {
      this.#at(fields, { ...place, name: open.added.name, arguments: open.text });
    } else {
      must(asText(fields.text, "text") === open.text, "the done text is that of the deltas");
      this.#at(fields, { ...place, text: open.text });
    }
    this.#machine.step(type);
  }

  #at(fields: JsonObject, expected: JsonObject): void {
    const open = this.#openItem();
    const whole = { item_id: open.id, output_index: open.outputIndex, ...expected };
    must(isDeepStrictEqual(fields, whole), "the event has the place of its item and the fields of its type");
  }

  #openItem(): OpenItem {
    must(this.#open !== undefined, "an event inside an item needs an open one");
    return this.#open;
  }
}
