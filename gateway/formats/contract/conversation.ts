import type { Duration } from "../../../proto/gen/google/protobuf/duration.ts";
import type { CacheHints } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  type CacheBreakpoint,
  ImageDetail,
  type ImagePart,
  type Message,
  type Part,
  Role,
  type ToolResultPart,
} from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import { argumentsText } from "../../json/json-text.ts";
import { emptyArray, invalidValue, missing, oneOf, tooLong, tooMany, unsupportedValue } from "../field-error.ts";
import { MAX_CACHE_KEY_LENGTH, MAX_MESSAGES } from "../fields.ts";
import { imageFromData, imagesNotAccepted, reasoningParts, word } from "../parts.ts";

type Kind = NonNullable<Part["kind"]>;
type KindName = Kind["$case"];

const KINDS: Readonly<Record<number, readonly KindName[]>> = {
  [Role.SYSTEM]: ["text", "toolDeclaration"],
  [Role.USER]: ["text", "image", "toolDeclaration"],
  [Role.ASSISTANT]: ["text", "reasoning", "toolCall"],
  [Role.TOOL]: ["toolResult"],
};

const RESULT_KINDS: readonly KindName[] = ["text", "image", "toolDeclaration"];

const FIELD = {
  text: "text",
  reasoning: "reasoning",
  toolCall: "tool_call",
  toolResult: "tool_result",
  image: "image",
  toolDeclaration: "tool_declaration",
} as const satisfies Record<KindName, string>;

const ROLES = ["ROLE_SYSTEM", "ROLE_USER", "ROLE_ASSISTANT", "ROLE_TOOL"];

/**
 * Returns a conversation without what only a gateway may set: signatures are left out, as nodes do not read them, and
 * digests of images are computed anew. Throws `ApiError` with the path of the first fault.
 */
export function checkedMessages(messages: readonly Message[], acceptsImages: boolean): readonly Message[] {
  if (messages.length === 0) throw emptyArray(["messages"]);
  if (messages.length > MAX_MESSAGES) throw tooMany(["messages"], MAX_MESSAGES);
  return messages.map((message, index) => checkedMessage(message, ["messages", index], acceptsImages));
}

function checkedMessage({ role, parts, name }: Message, path: FieldPath, acceptsImages: boolean): Message {
  const kinds = KINDS[role];
  if (!kinds) throw oneOf([...path, "role"], ROLES);
  const checked = checkedParts(parts, [...path, "parts"], { kinds, acceptsImages });
  refuseRepeatedCalls(checked, [...path, "parts"]);
  return { role, parts: checked, name: name === "" ? undefined : name };
}

type PartContext = { readonly kinds: readonly KindName[]; readonly acceptsImages: boolean };

/** A part whose kind is not set is left out. */
function checkedParts(parts: readonly Part[], path: FieldPath, context: PartContext): readonly Part[] {
  return parts.flatMap((part, index) => {
    const { kind } = part;
    if (!kind) return [];
    const at = [...path, index];
    if (!context.kinds.includes(kind.$case))
      throw invalidValue(
        [...at, FIELD[kind.$case]],
        `only these may stand here: ${context.kinds.map((each) => FIELD[each]).join(", ")}.`,
      );
    const checked = checkedKind(kind, [...at, FIELD[kind.$case]], context);
    return checked ? [{ kind: checked, cacheBreakpoint: breakpointOf(part.cacheBreakpoint, at) }] : [];
  });
}

function checkedKind(kind: Kind, path: FieldPath, { acceptsImages }: PartContext): Kind | undefined {
  switch (kind.$case) {
    case "text":
    case "toolDeclaration":
      return kind;
    case "reasoning":
      return reasoningParts(kind.value.redacted ? "" : kind.value.text)[0]?.kind;
    case "toolCall": {
      const { callId, name, argumentsJson } = kind.value;
      const words = { callId: word(callId, [...path, "call_id"]), name: word(name, [...path, "name"]) };
      return { $case: "toolCall", value: { ...words, argumentsJson: argumentsText(argumentsJson) } };
    }
    case "toolResult":
      return { $case: "toolResult", value: checkedResult(kind.value, path, acceptsImages) };
    case "image":
      if (!acceptsImages) throw imagesNotAccepted(path);
      return { $case: "image", value: checkedImage(kind.value, path) };
    default:
      return kind satisfies never;
  }
}

function checkedResult(result: ToolResultPart, path: FieldPath, acceptsImages: boolean): ToolResultPart {
  const { callId, name, content, isError } = result;
  const context = { kinds: RESULT_KINDS, acceptsImages };
  const said = checkedParts(content, [...path, "content"], context);
  return { callId: word(callId, [...path, "call_id"]), name, content: said, isError };
}

function checkedImage({ source, mimeType, detail }: ImagePart, path: FieldPath): ImagePart {
  if (!source) throw missing([...path, "data"]);
  if (source.$case === "uri")
    throw unsupportedValue([...path, "uri"], "Send the image itself as 'data'; addresses are not fetched.");
  if (!Object.values(ImageDetail).includes(detail))
    throw oneOf(
      [...path, "detail"],
      Object.keys(ImageDetail).map((name) => `IMAGE_DETAIL_${name}`),
    );
  const paths = { mimeType: [...path, "mime_type"], data: [...path, "data"] };
  return imageFromData(mimeType, source.value, paths, detail);
}

/** A result could not be matched to two calls of one id. */
function refuseRepeatedCalls(parts: readonly Part[], path: FieldPath): void {
  const ids = new Set<string>();
  for (const [index, { kind }] of parts.entries()) {
    if (kind?.$case !== "toolCall") continue;
    const { callId } = kind.value;
    if (ids.has(callId))
      throw invalidValue([...path, index, "tool_call", "call_id"], "another call of this message has the same id.");
    ids.add(callId);
  }
}

const MAX_TTL_SECONDS = 86_400;

/**
 * Reads the hints on the cache. The affinity key is the caller's own here, like a `prompt_cache_key` in other formats;
 * the route, which has the tenant, makes a digest of it. Callers cannot choose the isolation salt.
 */
export function checkedCacheHints(cache: CacheHints | undefined): CacheHints | undefined {
  if (!cache) return undefined;
  const { affinityKey, ttl } = cache;
  if (affinityKey.length > MAX_CACHE_KEY_LENGTH) throw tooLong(["cache", "affinity_key"], MAX_CACHE_KEY_LENGTH);
  return { affinityKey, isolationSalt: "", ttl: checkedTtl(ttl, ["cache", "ttl"]) };
}

export function breakpointOf(mark: CacheBreakpoint | undefined, path: FieldPath): CacheBreakpoint | undefined {
  return mark && { ttl: checkedTtl(mark.ttl, [...path, "cache_breakpoint", "ttl"]) };
}

function checkedTtl(ttl: Duration | undefined, path: FieldPath): Duration | undefined {
  if (!ttl) return undefined;
  const { seconds, nanos } = ttl;
  const time = seconds + nanos / 1e9;
  if (!(time >= 0 && time <= MAX_TTL_SECONDS))
    throw invalidValue(path, "expected at most 24 hours, and no less than 0.");
  return { seconds, nanos };
}
