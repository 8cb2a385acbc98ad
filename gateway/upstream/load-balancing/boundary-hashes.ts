import { createHash, type Hash, hash } from "node:crypto";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, type Part, Role, type Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";

const KEY_BYTES = 32;
/**
 * The bytes of a digest: half of SHA-256, enough to rule out accidental collisions. The other half is never disclosed,
 * so that no digest can be extended; a key prefix is then sufficient, and HMAC's second hash is not needed.
 */
export const DIGEST_BYTES = 16;
const IMAGE_BYTES = 6_000;

/** A position in a prompt at which a later prompt may branch off or continue. */
export type Boundary = {
  /** A keyed digest of everything before the boundary. */
  readonly hash: string;
  readonly bytes: number;
  /** Whether the caller marked the boundary as the end of a prefix that will be repeated. */
  readonly marked: boolean;
  /** At the first boundary: a digest of the order and the lengths of its tools; absent without any. */
  readonly tools?: string | undefined;
};

/** The positions at which a prompt can share cached tokens with other prompts, found without tokenizing it. */
export type PromptShape = {
  /** The boundary after the tools that are not deferred and the leading system messages, then one after each message. Never empty. */
  readonly boundaries: readonly Boundary[];
  /** The last boundary that an earlier request ended at; undefined for a first turn. */
  readonly lastTurn: number | undefined;
  /** A digest of the first message alone, which a conversation keeps with other tools, or none; absent without one. */
  readonly opening?: string | undefined;
  /** The number of messages before the first boundary. */
  readonly headMessages?: number;
};

/**
 * Digests a prompt cumulatively. The next turn of an agent repeats every message and appends some, so that it repeats
 * the digests of this turn exactly. Cache breakpoints are not digested: agents move them from turn to turn.
 *
 * `key` is 32 bytes, one for each tenant, isolation salt and model revision. Digests under different keys never match,
 * and without the key they disclose nothing of the text.
 */
export function promptShape(
  { messages, tools }: Pick<GenerateRequest, "messages" | "tools">,
  key: Uint8Array,
): PromptShape {
  gathered.set(key);
  section.begin("");
  let marked = false;
  const undeclared = new Map<string, Tool>();
  for (const tool of tools) {
    if (tool.deferred) undeclared.set(tool.name, tool);
    else {
      addTool(tool);
      if (tool.cacheBreakpoint) marked = true;
    }
  }
  const hasTools = tools.length > undeclared.size;
  const toolsOutline = hasTools ? hash("sha256", section.outline, "base64url") : undefined;
  let headLength = 0;
  for (const message of messages) {
    if (message.role !== Role.SYSTEM) break;
    headLength += 1;
    if (addMessage(message, undeclared)) marked = true;
  }
  const head: Boundary = { hash: section.digest(), bytes: section.bytes, marked, tools: toolsOutline };
  const first = messages[headLength];
  const shape = { boundaries: [head], lastTurn: undefined, opening: first && digestAlone(first) };
  return longer({ ...shape, headMessages: headLength }, messages.slice(headLength), undeclared);
}

/**
 * Returns the shape of a prompt with further messages, as `promptShape` does of all together. The prompt has a message
 * that is no system text, and `tools` are those of both that no earlier message has declared.
 */
export function extendedShape(
  shape: PromptShape,
  { messages, tools }: Pick<GenerateRequest, "messages" | "tools">,
  key: Uint8Array,
): PromptShape {
  gathered.set(key);
  const undeclared = new Map<string, Tool>();
  for (const tool of tools) if (tool.deferred) undeclared.set(tool.name, tool);
  return longer(shape, messages, undeclared);
}

function longer(shape: PromptShape, messages: readonly Message[], undeclared: Map<string, Tool>): PromptShape {
  const boundaries = [...shape.boundaries];
  let last = boundaries.at(-1) as Boundary; // never empty
  let { lastTurn } = shape;
  for (const message of messages) {
    if (message.role === Role.ASSISTANT) lastTurn = boundaries.length - 1;
    section.begin(last.hash);
    const isMarked = addMessage(message, undeclared);
    last = { hash: section.digest(), bytes: last.bytes + section.bytes, marked: isMarked };
    boundaries.push(last);
  }
  return { ...shape, boundaries, lastTurn };
}

/** Returns the digest of a message without the prompt in front of it, and without the tools that it declares. */
function digestAlone(message: Message): string {
  section.begin("");
  addMessage(message, new Map());
  return section.digest();
}

export function promptBytes({ boundaries }: PromptShape): number {
  return boundaries.at(-1)?.bytes ?? 0;
}

/** Returns the digest that is constant through a conversation: that of its tools, system part and first message. */
export function headOf({ boundaries }: PromptShape): string {
  return (boundaries[1] ?? boundaries[0])?.hash ?? "";
}

function addTool({ name, description, parametersJsonSchema, strict }: Tool): void {
  section.add(`tool ${strict}`, name, description, parametersJsonSchema);
}

/** Adds a message to the section, and takes the tools that it declares out of `undeclared`. Returns whether its end is marked. */
function addMessage({ role, name, parts }: Message, undeclared: Map<string, Tool>): boolean {
  section.add(`message ${role} ${parts.length}`, name ?? "");
  let isMarked = false;
  for (const part of parts) {
    addPart(part, undeclared);
    if (hasBreakpoint(part)) isMarked = true;
  }
  return isMarked;
}

function hasBreakpoint({ cacheBreakpoint, kind }: Part): boolean {
  return cacheBreakpoint !== undefined || (kind?.$case === "toolResult" && kind.value.content.some(hasBreakpoint));
}

function addPart({ kind }: Part, undeclared: Map<string, Tool>): void {
  switch (kind?.$case) {
    case undefined:
      return;
    case "text":
      section.add("text", kind.value.text);
      return;
    case "reasoning":
      section.add(`reasoning ${kind.value.redacted}`, kind.value.text, kind.value.signature);
      return;
    case "toolCall":
      section.add("call", kind.value.callId, kind.value.name, kind.value.argumentsJson);
      return;
    case "toolResult": {
      const { callId, name, isError, content } = kind.value;
      section.add(`result ${isError} ${content.length}`, callId, name);
      for (const part of content) addPart(part, undeclared);
      return;
    }
    case "image": {
      const { contentSha256, source, mimeType, detail } = kind.value;
      const identity = contentSha256.length > 0 ? contentSha256 : (source?.value ?? "");
      section.addImage(`image ${detail}`, identity, mimeType);
      return;
    }
    case "toolDeclaration":
      section.add("declaration");
      for (const name of kind.value.names) {
        const tool = undeclared.get(name);
        if (tool) addTool(tool);
        undeclared.delete(name);
      }
      return;
    default:
      kind satisfies never;
  }
}

/** The size of the buffer for fields before they are digested, in bytes: nearly all messages are shorter. */
const GATHERED_BYTES = 64 * 1024;
/** The most bytes that one UTF-16 code unit takes in UTF-8. */
const MAX_CHARACTER_BYTES = 3;

/** The buffer of the section being digested, behind the key. */
const gathered = Buffer.allocUnsafeSlow(KEY_BYTES + GATHERED_BYTES);
const digested = Buffer.alloc(32);

/**
 * Digests and measures the text between two boundaries, by SHA-256. The fields of a section are collected behind the
 * key and digested in one call: an incremental digest costs several times as much as hashing a short text. The fields
 * are followed by their outline, which holds the length of each; it begins at the last zero byte.
 */
class Section {
  /** The bytes of the fields so far. */
  bytes = 0;
  #at = KEY_BYTES;
  /** Receives the fields that exceed the buffer; undefined while all have fitted. */
  #overflow: Hash | undefined;
  #outline = "\0";

  get outline(): string {
    return this.#outline;
  }

  /** Begins a section under the key in `gathered`; `before` is the digest of the previous boundary. */
  begin(before: string): void {
    this.bytes = 0;
    this.#at = KEY_BYTES;
    this.#overflow = undefined;
    this.#outline = "\0";
    this.#put(before);
  }

  /**
   * Digests fields, and counts their bytes. The tag holds only words and numbers of the gateway; the lengths
   * distinguish ("ab", "c") from ("a", "bc").
   */
  add(tag: string, ...fields: readonly (string | Buffer)[]): void {
    this.#outline += tag;
    for (const field of fields) {
      const bytes = field.length === 0 ? 0 : this.#put(field);
      this.#outline += ` ${bytes}`;
      this.bytes += bytes;
    }
    this.#outline += ";";
  }

  addImage(tag: string, ...fields: readonly (string | Buffer)[]): void {
    const { bytes } = this;
    this.add(tag, ...fields);
    this.bytes = bytes + IMAGE_BYTES;
  }

  digest(): string {
    this.#put(this.#outline);
    if (this.#overflow) return this.#flushed().digest().toString("base64url", 0, DIGEST_BYTES);
    // Reading the digest as a binary string and converting it costs half of reading it as a buffer.
    digested.write(hash("sha256", gathered.subarray(0, this.#at), "binary"), "latin1");
    return digested.toString("base64url", 0, DIGEST_BYTES);
  }

  #put(field: string | Buffer): number {
    const mostBytes = typeof field === "string" ? field.length * MAX_CHARACTER_BYTES : field.length;
    if (mostBytes > gathered.length - this.#at) this.#flushed();
    if (mostBytes > gathered.length - this.#at) {
      this.#overflow?.update(field);
      return Buffer.byteLength(field);
    }
    const bytes = typeof field === "string" ? gathered.write(field, this.#at) : field.copy(gathered, this.#at);
    this.#at += bytes;
    return bytes;
  }

  /** Digests the collected bytes to free the buffer. Returns the digest that takes the rest. */
  #flushed(): Hash {
    const from = this.#overflow ? KEY_BYTES : 0;
    this.#overflow ??= createHash("sha256");
    this.#overflow.update(gathered.subarray(from, this.#at));
    this.#at = KEY_BYTES;
    return this.#overflow;
  }
}

/** The section being digested: one at a time. */
const section = new Section();
