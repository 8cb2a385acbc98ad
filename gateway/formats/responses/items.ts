import { type Message, type Part, Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { ApiError, type FieldPath } from "../../errors.ts";
import { argumentsText, isJsonObject, type JsonObject, jsonText } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import { bracketPath } from "../error-envelope.ts";
import {
  hostedTool,
  invalidValue,
  missing,
  oneOf,
  unsupportedParameter,
  unsupportedValue,
  wrongType,
} from "../field-error.ts";
import { partBreakpoint } from "../fields.ts";
import { type FormatSettings, type ItemState, type Sealer, WHOLE_PROMPT } from "../format.ts";
import {
  IMAGE_DETAILS,
  imageFromUrl,
  imagesNotAccepted,
  leavesUnknownOut,
  readOr,
  reasoningParts,
  textPart,
  type UnreadableRule,
} from "../parts.ts";
import { summaryRequest, summaryText } from "../summary.ts";
import { inputArguments } from "./custom-input.ts";
import {
  callItem,
  compactionItem,
  customCallItem,
  inputImage,
  inputText,
  messageItem,
  outputItem,
  type ResponsesBody,
  refusalPart,
} from "./schema.ts";
import { searchCallItem, searchOutputItem, toolsItem } from "./tool-schema.ts";
import { type DeclaredTools, modelName, SEARCH } from "./tools.ts";
import { readVendorCall, readVendorOutput, VENDOR_CALLS, VENDOR_OUTPUTS } from "./vendor-tools.ts";

const ROLES = {
  user: Role.USER,
  assistant: Role.ASSISTANT,
  system: Role.SYSTEM,
  developer: Role.SYSTEM,
} as const;

/** Items of tools that only the vendor's service runs, or of state that only that service stores. */
const FOREIGN_ITEM =
  /^(?:(?:web_search|file_search|image_generation|code_interpreter)_call|computer_call(?:_output)?|mcp_[a-z_]{1,32}|program(?:_[a-z_]{1,32})?)$/;

export type ItemContext = {
  readonly sealer: Sealer;
  readonly acceptsImages: boolean;
  /** For images and files that the model cannot read, in the user's own content of the last item. */
  readonly unreadable: UnreadableRule;
  /** For items of tools that this service does not run. */
  readonly unsupported: FormatSettings["unsupportedTools"];
  /** The tools of the body, to which items add theirs. */
  readonly tools: DeclaredTools;
  /** What earlier items left, behind which the input is read. Default: it is the whole conversation. */
  readonly before?: ItemState | undefined;
  /** Whether a later input may be read behind this one. */
  readonly isContinued: boolean;
};

export type Input = {
  /** The conversation in canonical messages. For a compaction, it ends in the request for a summary. */
  readonly messages: readonly Message[];
  /** For each message, the number of the item that it, or its beginning, came from. */
  readonly places: readonly number[];
  readonly compacts: boolean;
  /** The names of the tools that messages have declared. */
  readonly shown: ReadonlySet<string>;
  /** Undefined where nothing can continue the input. */
  readonly after: ItemState | undefined;
};

type PlacedMessages = Pick<Input, "messages" | "places" | "shown">;

/**
 * Reads `input` ("Input items of responses" in formats/README.md). Neighbouring assistant messages, reasoning and
 * function calls are one assistant turn, as the model generated them together; every output is a tool turn of its own.
 * `compacts` requests a summary whether or not the last item does. Throws `ApiError`.
 */
export function readInput(input: ResponsesBody["input"], context: ItemContext, compacts: boolean): Input {
  const path = ["input"];
  if (typeof input === "string") {
    if (input === "") throw invalidValue(path, "expected a non-empty string.");
    const conversation = new Conversation(context, 0);
    conversation.say(input);
    const placed = conversation.end();
    return compacts ? withSummaryRequest(placed) : placed;
  }
  const first = context.before?.items ?? 0;
  const conversation = new Conversation(context, first + input.length - 1);
  for (const [index, item] of input.entries()) conversation.add(item, first + index);
  const placed = conversation.end();
  return compacts || placed.compacts ? withSummaryRequest(placed) : placed;
}

function withSummaryRequest({ messages, places, shown }: PlacedMessages): Input {
  const asked = { messages: [...messages, summaryRequest()], places: [...places, WHOLE_PROMPT] };
  return { ...asked, shown, compacts: true, after: undefined };
}

/** `kind` is the vendor's word for calls of its item. */
type Call = { readonly kind: string; readonly path: FieldPath };

type CalledTool = {
  readonly type: string;
  readonly call_id: string;
  readonly name: string;
  readonly namespace?: string | null | undefined;
};

class Conversation {
  readonly #context: ItemContext;
  readonly #lastPlace: number;
  readonly #messages: Message[] = [];
  readonly #places: number[] = [];
  /** The parts of the assistant turn that the next item may still belong to. */
  #turn: Part[];
  /** The number of that turn's first item. */
  #turnPlace: number;
  /** The number of the item being read. */
  #place: number;
  /** The names of all calls, by their ids. */
  readonly #calls: Map<string, string>;
  /** The calls that have no output yet. */
  readonly #open = new Map<string, Call>();
  /** Whether all messages so far are system text, behind which tools are still in the head of the prompt. */
  #isHead: boolean;
  /** The names of the tools that messages have declared. */
  readonly #shown: Set<string>;
  readonly #toolItems: ItemState["tools"][number][];
  /** Declarations that wait for the next output. */
  readonly #waiting: Part[] = [];
  /** The path of the item that requests a summary of all items before it. */
  #trigger: FieldPath | undefined;

  constructor(context: ItemContext, lastPlace: number) {
    const { before } = context;
    this.#context = context;
    this.#lastPlace = lastPlace;
    this.#turn = [...(before?.turn ?? [])];
    this.#turnPlace = before?.turnPlace ?? 0;
    this.#place = (before?.items ?? 0) - 1;
    this.#calls = new Map(before?.calls);
    this.#isHead = before?.isHead ?? true;
    this.#shown = new Set(before?.shown);
    this.#toolItems = [...(before?.tools ?? [])];
  }

  /** Adds an input that is a text: the user's message, which is all of the prompt's field. */
  say(text: string): void {
    this.#place += 1;
    this.#push({ role: Role.USER, parts: [textPart(text)] }, WHOLE_PROMPT);
  }

  add(item: unknown, place: number): void {
    const path = ["input", place];
    this.#place = place;
    if (this.#turn.length === 0) this.#turnPlace = place;
    if (!isJsonObject(item)) throw wrongType(path, "an object", item);
    if (this.#trigger) throw invalidValue(this.#trigger, "a 'compaction_trigger' has to be the last item.");
    if (this.#context.unsupported === "skip" && isForeign(item)) return;
    const type = typeOf(item, path);
    if (type === "message") this.#message(item, path);
    else if (type === "function_call") this.#functionCall(item, path);
    else if (type === "custom_tool_call") this.#customCall(item, path);
    else if (type === "tool_search_call") this.#searchCall(item, path);
    else if (type === "tool_search_output") this.#searchOutput(item, path);
    else if (type === "additional_tools") this.#tools(item, path);
    else if (type === "function_call_output" || type === "custom_tool_call_output") this.#output(item, path);
    else if (isVendorCall(type)) this.#vendorCall(type, item, path);
    else if (isVendorOutput(type)) this.#vendorOutput(type, item, path);
    else if (type === "reasoning") this.#turn.push(...reasoningParts(reasoningText(item, this.#context.sealer)));
    else if (type === "compaction") this.#compaction(item, path);
    else this.#trigger = [...path, "type"];
  }

  /** Returns all messages. Throws `ApiError` when a call has no output, as the model would consider it unfinished. */
  end(): Input {
    const { before, acceptsImages, isContinued } = this.#context;
    for (const { kind, path } of this.#open.values())
      throw unpaired(`No tool output found for ${kind} '${bracketPath(path)}'.`, path);
    const after: ItemState = {
      ...{
        items: this.#place + 1,
        messages: (before?.messages ?? 0) + this.#messages.length,
        turn: this.#turn,
        turnPlace: this.#turnPlace,
        calls: this.#calls,
      },
      ...{ isHead: this.#isHead, shown: this.#shown, tools: this.#toolItems },
      acceptsImages,
    };
    const isEmpty = after.messages === 0 && this.#turn.length === 0;
    this.#endTurn();
    if (this.#trigger && isEmpty)
      throw invalidValue(this.#trigger, "there is nothing before it that could be compacted.");
    const placed = { messages: this.#messages, places: this.#places, shown: this.#shown };
    return {
      ...placed,
      compacts: this.#trigger !== undefined,
      after: this.#trigger || !isContinued ? undefined : after,
    };
  }

  #message(item: JsonObject, path: FieldPath): void {
    const { role, content } = checked(messageItem, item, path);
    const accepted = this.#context.acceptsImages ? "accepted" : "not_by_model";
    const images = role === "user" ? accepted : "not_here";
    const unreadable = this.#place === this.#lastPlace ? this.#context.unreadable : "placeholder";
    const parts = contentParts(content, [...path, "content"], images, unreadable);
    if (role !== "assistant") this.#push({ role: ROLES[role], parts });
    else for (const part of parts) this.#turn.push(part);
  }

  #functionCall(item: JsonObject, path: FieldPath): void {
    const call = checked(callItem, item, path);
    this.#call(call, argumentsText(call.arguments), path);
  }

  #customCall(item: JsonObject, path: FieldPath): void {
    const call = checked(customCallItem, item, path);
    this.#call(call, inputArguments(call.input), path);
  }

  #searchCall(item: JsonObject, path: FieldPath): void {
    const call = checked(searchCallItem, item, path);
    const value = call.arguments;
    const text = typeof value === "string" ? value : isJsonObject(value) ? jsonText(value) : "";
    this.#call({ ...call, name: SEARCH }, argumentsText(text), path);
  }

  #vendorCall(type: keyof typeof VENDOR_CALLS, item: JsonObject, path: FieldPath): void {
    const { argumentsJson, ...call } = readVendorCall(type, item, path);
    this.#call(call, argumentsJson, path);
  }

  #vendorOutput(type: (typeof VENDOR_OUTPUTS)[number], item: JsonObject, path: FieldPath): void {
    const { text, isError, ...answered } = readVendorOutput(type, item, path);
    this.#result(answered, [textPart(text)], path, isError);
  }

  /** Tools that a search found can be called from here on. */
  #searchOutput(item: JsonObject, path: FieldPath): void {
    const { tools, ...answered } = checked(searchOutputItem, item, path);
    const parts = this.#declared(this.#added(item.tools, tools, path, true));
    const nothing = tools.length === 0 ? "No tools were found." : "These tools are there already.";
    this.#result(answered, parts.length > 0 ? parts : [textPart(nothing)], path);
  }

  /** Nothing can stand between a call and its output, which then declares the tools. */
  #tools(item: JsonObject, path: FieldPath): void {
    const { tools } = checked(toolsItem, item, path);
    const isHead = this.#isHead && this.#turn.length === 0;
    const parts = this.#declared(this.#added(item.tools, tools, path, !isHead));
    if (this.#open.size > 0) this.#waiting.push(...parts);
    else if (parts.length > 0) this.#push({ role: Role.SYSTEM, parts });
  }

  /** Adds the tools of an item, and records them with their numbers as the caller wrote them. */
  #added(written: unknown, tools: readonly unknown[], path: FieldPath, deferred: boolean): readonly string[] {
    const names = this.#context.tools.addOfItem(tools, [...path, "tools"], deferred);
    if (!this.#context.isContinued) return names;
    const json = jsonText(written as readonly unknown[]); // Checked: `tools` is its copy.
    this.#toolItems.push({ json: `{"tools":${json}}`, deferred, names });
    return names;
  }

  /** Returns the declaration of those tools that no message has declared. */
  #declared(all: readonly string[]): readonly Part[] {
    const names = all.filter((name) => !this.#shown.has(name));
    for (const name of names) this.#shown.add(name);
    return names.length === 0 ? [] : [{ kind: { $case: "toolDeclaration", value: { names } } }];
  }

  #call(
    { type, call_id: callId, name: declared, namespace }: CalledTool,
    argumentsJson: string,
    path: FieldPath,
  ): void {
    const name = modelName(namespace ?? undefined, declared);
    this.#turn.push({ kind: { $case: "toolCall", value: { callId, name, argumentsJson } } });
    const place: Call = { kind: type.replaceAll("_", " "), path: [...path, "call_id"] };
    this.#calls.set(callId, name);
    this.#open.set(callId, place);
  }

  /** Unlike reasoning, a summary that does not open is refused: the model would lack the subject. */
  #compaction(item: JsonObject, path: FieldPath): void {
    const summary = this.#context.sealer.open(checked(compactionItem, item, path).encrypted_content, "summary");
    if (summary === undefined)
      throw invalidValue(
        [...path, "encrypted_content"],
        "it was not made by this service for your key, or was changed. Send the conversation itself instead.",
      );
    this.#push({ role: Role.USER, parts: [textPart(summaryText(summary))] });
  }

  #output(item: JsonObject, path: FieldPath): void {
    const { output, ...answered } = checked(outputItem, item, path);
    const images = this.#context.acceptsImages ? "accepted" : "not_by_model";
    this.#result(answered, contentParts(output, [...path, "output"], images, "placeholder"), path);
  }

  #result(
    { type, call_id: callId }: Pick<CalledTool, "type" | "call_id">,
    parts: readonly Part[],
    path: FieldPath,
    isError = false,
  ): void {
    const name = this.#calls.get(callId);
    if (name === undefined) {
      const at: FieldPath = [...path, "call_id"];
      throw unpaired(`No tool call found for ${type.replaceAll("_", " ")} with call_id '${bracketPath(at)}'.`, at);
    }
    this.#open.delete(callId);
    const content = [...parts, ...this.#waiting.splice(0)];
    const result = { callId, name, content, isError };
    this.#push({ role: Role.TOOL, parts: [{ kind: { $case: "toolResult", value: result } }] });
  }

  #push(message: Message, place = this.#place): void {
    this.#endTurn();
    if (message.role !== Role.SYSTEM) this.#isHead = false;
    this.#messages.push(message);
    this.#places.push(place);
  }

  #endTurn(): void {
    if (this.#turn.length === 0) return;
    this.#isHead = false;
    this.#messages.push({ role: Role.ASSISTANT, parts: this.#turn });
    this.#places.push(this.#turnPlace);
    this.#turn = [];
  }
}

const ITEM_TYPES = [
  "message",
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
  "tool_search_call",
  "tool_search_output",
  "additional_tools",
  "shell_call",
  "local_shell_call",
  "apply_patch_call",
  ...VENDOR_OUTPUTS,
  "reasoning",
  "compaction",
  "compaction_trigger",
] as const;

type ItemType = (typeof ITEM_TYPES)[number];

function isVendorCall(type: ItemType): type is keyof typeof VENDOR_CALLS {
  return Object.hasOwn(VENDOR_CALLS, type);
}

function isVendorOutput(type: ItemType): type is (typeof VENDOR_OUTPUTS)[number] {
  return VENDOR_OUTPUTS.some((one) => one === type);
}

/** Messages and references may omit their type. */
function typeOf(item: JsonObject, path: FieldPath): ItemType {
  const { type, role, id } = item;
  const typePath = [...path, "type"];
  if (type === undefined || type === null) {
    if (role !== undefined) return "message";
    if (typeof id === "string") throw itemReference(typePath);
    throw missing(typePath);
  }
  if (isForeign(item)) throw hostedTool("An item of a hosted or stored tool", typePath);
  const known = ITEM_TYPES.find((name) => name === type);
  if (known) return known;
  if (type === "item_reference") throw itemReference(typePath);
  throw oneOf(typePath, ITEM_TYPES);
}

/** A search of tools is the caller's unless it says otherwise; one of the vendor's service has no id. */
function isForeign({ type, execution, call_id }: JsonObject): boolean {
  if (type === "tool_search_call" || type === "tool_search_output") return execution === "server" || call_id === null;
  return typeof type === "string" && FOREIGN_ITEM.test(type);
}

function itemReference(path: FieldPath): ApiError {
  return unsupportedValue(
    path,
    "Nothing is stored here, so an 'item_reference' refers to nothing. Set 'store' to false, and clients send the items themselves (AI SDK: providerOptions.openai.store = false).",
  );
}

/** The caller's ids stay out of the message: the path names the item. */
function unpaired(message: string, path: FieldPath): ApiError {
  return new ApiError("invalid_value", message, { path });
}

/**
 * Returns the sealed copy if it is ours, else the plain text, else the summary. Agents pass on items of other services
 * and leave parts out, so no form is an error.
 */
function reasoningText(item: JsonObject, sealer: Sealer): string {
  const sealed = item.encrypted_content;
  const opened = typeof sealed === "string" && sealed !== "" ? sealer.open(sealed) : undefined;
  return opened || textsOf(item.content, "reasoning_text") || textsOf(item.summary, "summary_text");
}

function textsOf(parts: unknown, type: "reasoning_text" | "summary_text"): string {
  if (!Array.isArray(parts)) return "";
  return parts
    .flatMap((part: unknown) =>
      isJsonObject(part) && part.type === type && typeof part.text === "string" ? [part.text] : [],
    )
    .join("\n\n");
}

type ImageRule = "accepted" | "not_by_model" | "not_here";

function contentParts(
  content: string | readonly unknown[],
  path: FieldPath,
  images: ImageRule,
  unreadable: UnreadableRule,
): readonly Part[] {
  if (typeof content === "string") return [textPart(content)];
  const leavesOut = leavesUnknownOut(content, isPartType);
  return content.flatMap((part, index) => {
    if (leavesOut && isJsonObject(part) && typeof part.type === "string" && !isPartType(part.type)) return [];
    return [contentPart(part, [...path, index], images, unreadable)];
  });
}

/** The types of this format, and those that clients take from chat by mistake: leaving them out would lose words. */
const PART_TYPES: ReadonlySet<string> = new Set([
  ...["input_text", "output_text", "refusal", "input_image", "input_file", "text", "image_url"],
]);

function isPartType(type: string): boolean {
  return PART_TYPES.has(type);
}

/** Agents mix the types of input and output text, so either is accepted in every role. */
function contentPart(part: unknown, path: FieldPath, images: ImageRule, wanted: UnreadableRule): Part {
  const { prompt_cache_breakpoint: mark } = checked(MARKED_PART, part, path);
  const read = plainPart(part as JsonObject, path, images, images === "not_here" ? "reject" : wanted);
  return mark ? { ...read, cacheBreakpoint: partBreakpoint(mark) } : read;
}

const MARKED_PART = inputText.pick({ prompt_cache_breakpoint: true });

function plainPart(part: JsonObject, path: FieldPath, images: ImageRule, unreadable: UnreadableRule): Part {
  switch (part.type) {
    case "input_text":
    case "output_text":
      return textPart(checked(inputText, part, path).text);
    case "refusal":
      return textPart(checked(refusalPart, part, path).refusal);
    case "input_image":
      return readOr(unreadable, "an image", () => imagePart(part, path, images), textPart);
    case "input_file":
      return readOr(unreadable, "a file", () => refuseFile(path), textPart);
    case undefined:
    case null:
      throw missing([...path, "type"]);
    default:
      throw oneOf([...path, "type"], ["input_text", "input_image", "output_text", "refusal"]);
  }
}

function refuseFile(path: FieldPath): never {
  throw unsupportedValue([...path, "type"], "Files are not supported: send their text as 'input_text'.");
}

function imagePart(part: JsonObject, path: FieldPath, images: ImageRule): Part {
  if (images === "not_here")
    throw unsupportedValue(path, "Images are supported in user messages and in function call outputs only.");
  if (images === "not_by_model") throw imagesNotAccepted(path);
  if (part.file_id !== undefined && part.file_id !== null)
    throw unsupportedParameter([...path, "file_id"], "No files are stored: send a 'data:' URL in 'image_url'.");
  const { image_url, detail } = checked(inputImage, part, path);
  const image = imageFromUrl(image_url, [...path, "image_url"], IMAGE_DETAILS[detail ?? "auto"]);
  return { kind: { $case: "image", value: image } };
}
