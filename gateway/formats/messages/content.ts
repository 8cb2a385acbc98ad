import * as z from "zod";
import type { Part } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject, jsonText } from "../../json/json-text.ts";
import { checked, field } from "../checked.ts";
import { invalidValue, oneOf, unsupportedValue, wrongType } from "../field-error.ts";
import type { Sealer } from "../format.ts";
import {
  imageFromBase64,
  imageFromUrl,
  imagesNotAccepted,
  readOr,
  reasoningParts,
  textPart,
  type UnreadableRule,
  withBreakpoint,
} from "../parts.ts";
import {
  documentBlock,
  imageBlock,
  plainTextSource,
  searchResultBlock,
  textBlock,
  thinkingBlock,
  toolReferenceBlock,
  toolUseBlock,
} from "./schema.ts";
import type { RequestTools } from "./tools.ts";

/** The position of a block; each kind of block is accepted in some of them. */
export type Place = "user" | "assistant" | "system" | "tool_result" | "document";

export type Block = { readonly type: BlockType; readonly value: JsonObject; readonly path: FieldPath };

export type ContentContext = {
  readonly acceptsImages: boolean;
  /** For images and documents that the model cannot read. */
  readonly unreadable: UnreadableRule;
  readonly sealer: Pick<Sealer, "open">;
  readonly tools: Pick<RequestTools, "found" | "added" | "removed">;
};

/** The blocks that reach the model, and the positions that accept each. */
const PLACES = {
  text: ["user", "assistant", "system", "tool_result", "document"],
  image: ["user", "tool_result", "document"],
  document: ["user", "tool_result"],
  search_result: ["user", "tool_result"],
  tool_reference: ["tool_result"],
  tool_addition: ["user", "system"],
  tool_removal: ["user", "system"],
  tool_result: ["user"],
  tool_use: ["assistant"],
  thinking: ["assistant"],
  compaction: ["user", "assistant"],
} as const satisfies Record<string, readonly Place[]>;

export type BlockType = keyof typeof PLACES;

/**
 * The blocks left out of the prompt: traces of tools that ran at a vendor, and reasoning that only a vendor can read.
 * Their results are in the text that follows, and a model shown such traces begins to write them itself.
 */
const LEFT_OUT =
  /^(redacted_thinking|server_tool_use|container_upload|mcp_[a-z_]+|(web_search|web_fetch|tool_search|[a-z_]*code_execution)_tool_result)$/;

export const ANY_BLOCK = z.object({ type: z.string() });

/**
 * Reads content as blocks: a string is one text block, absent content is none. Blocks of unknown kinds are left out, as
 * schemas are open; content of only such blocks is refused, as the model would see none of it. Throws `ApiError`.
 */
export function contentBlocks(content: unknown, path: FieldPath, place: Place): readonly Block[] {
  if (content === undefined || content === null) return [];
  if (typeof content === "string") return [{ type: "text", value: { type: "text", text: content }, path }];
  if (!Array.isArray(content)) throw wrongType(path, "a string or an array of content blocks", content);
  const blocks: Block[] = [];
  let unknown = 0;
  for (const [index, value] of content.entries()) {
    const blockPath = [...path, index];
    const { type } = checked(ANY_BLOCK, value, blockPath);
    if (isBlockType(type)) {
      const places: readonly Place[] = PLACES[type];
      const refusal = `'${type}' blocks may not stand here, only in: ${places.join(", ")}.`;
      if (!places.includes(place)) throw invalidValue([...blockPath, "type"], refusal);
      blocks.push({ type, value: value as JsonObject, path: blockPath });
    } else if (!LEFT_OUT.test(type)) unknown++;
  }
  if (unknown > 0 && unknown === content.length) {
    const types = Object.entries<readonly Place[]>(PLACES).filter(([, places]) => places.includes(place));
    throw oneOf(
      [...path, 0, "type"],
      types.map(([type]) => type),
    );
  }
  return blocks;
}

/** Returns the parts of a block; none of empty text, nor of a `tool_result`, which the conversation reads. */
export function partsOf(block: Block, context: ContentContext): readonly Part[] {
  return withBreakpoint(plainParts(block, context), block.value.cache_control);
}

export function allParts(blocks: readonly Block[], context: ContentContext): Part[] {
  return blocks.flatMap((block) => partsOf(block, context));
}

function plainParts(block: Block, context: ContentContext): readonly Part[] {
  const { value, path } = block;
  switch (block.type) {
    case "text":
      return textParts(field(textBlock, value, "text", path));
    case "image":
      return readOr(context.unreadable, "an image", () => [imagePart(value, path, context)], textParts);
    case "document":
      return documentParts(value, path, context);
    case "search_result":
      return searchResultParts(value, path, context);
    case "tool_reference":
      return context.tools.found(field(toolReferenceBlock, value, "tool_name", path));
    case "tool_addition":
      return context.tools.added(value, path);
    case "tool_removal":
      return context.tools.removed(value, path);
    case "thinking":
      return reasoningParts(thinkingText(value, path, context));
    case "tool_use": {
      const { id, name, input } = checked(toolUseBlock, value, path);
      return [{ kind: { $case: "toolCall", value: { callId: id, name, argumentsJson: jsonText(input ?? {}) } } }];
    }
    // The conversation reads these.
    case "compaction":
    case "tool_result":
      return [];
    default:
      return block.type satisfies never;
  }
}

/**
 * Reads reasoning of an earlier turn. Its signature is not required to be valid, as it may come from another service.
 * Where the text was withheld from the caller, the signature is the sealed text.
 */
function thinkingText(value: JsonObject, path: FieldPath, { sealer }: ContentContext): string {
  const shown = field(thinkingBlock, value, "thinking", path) ?? "";
  const { signature } = value;
  return shown === "" && typeof signature === "string" ? (sealer.open(signature) ?? "") : shown;
}

function imagePart(value: JsonObject, path: FieldPath, context: ContentContext): Part {
  if (!context.acceptsImages) throw imagesNotAccepted(path);
  const at = [...path, "source"];
  if (isJsonObject(value.source) && value.source.type === "file")
    throw unsupportedValue([...at, "type"], "Files are not stored here; send the image as 'base64'.");
  const source = field(imageBlock, value, "source", path);
  const image =
    source.type === "url"
      ? imageFromUrl(source.url, [...at, "url"])
      : imageFromBase64(source.media_type, source.data, { mimeType: [...at, "media_type"], data: [...at, "data"] });
  return { kind: { $case: "image", value: image } };
}

const ANY_SOURCE = ANY_BLOCK.extend({ content: z.unknown() });

function documentParts(value: JsonObject, path: FieldPath, context: ContentContext): readonly Part[] {
  const at = [...path, "source"];
  const source = checked(ANY_SOURCE, value.source, at);
  if (source.type !== "text" && source.type !== "content") {
    const refuse = () => {
      throw unsupportedValue([...at, "type"], "Only documents of the types 'text' and 'content' are supported.");
    };
    return readOr<readonly Part[]>(context.unreadable, "a document", refuse, textParts);
  }
  const inner =
    source.type === "text"
      ? textParts(checked(plainTextSource, source, at).data)
      : allParts(contentBlocks(source.content, [...at, "content"], "document"), context);
  const head =
    tagged("title", field(documentBlock, value, "title", path)) +
    tagged("context", field(documentBlock, value, "context", path));
  return enclosed("document", head, inner);
}

function searchResultParts(value: JsonObject, path: FieldPath, context: ContentContext): readonly Part[] {
  const inner = allParts(contentBlocks(value.content, [...path, "content"], "document"), context);
  const head =
    tagged("title", field(searchResultBlock, value, "title", path)) +
    tagged("source", field(searchResultBlock, value, "source", path));
  return enclosed("search_result", head, inner);
}

function tagged(tag: string, text: string | null | undefined): string {
  return !text ? "" : `<${tag}>${text}</${tag}>\n`;
}

/** Puts parts between tags: one text part where all is text; images stay parts of their own. */
function enclosed(tag: string, head: string, inner: readonly Part[]): readonly Part[] {
  const parts: Part[] = [];
  let text = `<${tag}>\n${head}`;
  for (const { kind } of inner) {
    if (kind?.$case === "text") text += `${kind.value.text}\n`;
    else {
      parts.push(...textParts(text), { kind });
      text = "";
    }
  }
  return [...parts, ...textParts(`${text}</${tag}>`)];
}

function textParts(text: string): readonly Part[] {
  return text === "" ? [] : [textPart(text)];
}

export function isBlockType(type: string): type is BlockType {
  return Object.hasOwn(PLACES, type);
}
