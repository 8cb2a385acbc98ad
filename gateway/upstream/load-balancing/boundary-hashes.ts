import { createHmac, type Hmac } from "node:crypto";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, type Part, Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { HMAC_BLOCK_BYTES, HmacParts } from "../../hmac.ts";

/** The bytes of a digest: half of SHA-256, enough that no two prompts meet by accident. */
const DIGEST_BYTES = 16;
/** The bytes of text that an image counts as: about 1,500 tokens. */
const IMAGE_BYTES = 6_000;

/** A place in a prompt at which a later prompt may branch off, or go on. */
export type Boundary = {
  /** A keyed digest of everything before the boundary. */
  readonly hash: string;
  /** The size of everything before the boundary, in bytes. */
  readonly bytes: number;
  /** Whether the caller marked the boundary as the end of a prefix that will come again. */
  readonly marked: boolean;
};

/** The places at which a prompt can be shared with others in a cache, known without a look at its tokens. */
export type PromptShape = {
  /** The boundary after the tools and the leading system messages, then one after each message. Never empty. */
  readonly boundaries: readonly Boundary[];
  /**
   * The index of the last boundary that an earlier request of this conversation ended at; undefined for its first turn.
   */
  readonly lastTurn: number | undefined;
};

/**
 * Digests a prompt cumulatively. The next turn of an agent repeats every message and adds some, so that the digests of
 * this turn come again, exactly. Cache breakpoints are left out of the digests: agents move them from turn to turn.
 *
 * `key` is at least 32 bytes, of its own for every tenant, isolation salt and model revision. Digests under different
 * keys never match, and without the key they tell nothing about the text.
 */
export function promptShape(
  { messages, tools }: Pick<GenerateRequest, "messages" | "tools">,
  key: Uint8Array,
): PromptShape {
  const found = messages.findIndex(({ role }) => role !== Role.SYSTEM);
  const headLength = found < 0 ? messages.length : found;

  gathered.setKey(key);
  const head = new Section(key, "");
  for (const { name, description, parametersJsonSchema, strict } of tools) {
    head.add("tool", name, description, parametersJsonSchema, String(strict));
  }
  for (const message of messages.slice(0, headLength)) addMessage(head, message);
  const headMarked =
    tools.some(({ cacheBreakpoint }) => cacheBreakpoint) || messages.slice(0, headLength).some(isMarked);

  let last: Boundary = { hash: head.digest(), bytes: head.bytes, marked: headMarked };
  const boundaries = [last];
  let lastTurn: number | undefined;
  for (const message of messages.slice(headLength)) {
    if (message.role === Role.ASSISTANT) lastTurn = boundaries.length - 1;
    const section = new Section(key, last.hash);
    addMessage(section, message);
    last = { hash: section.digest(), bytes: last.bytes + section.bytes, marked: isMarked(message) };
    boundaries.push(last);
  }
  return { boundaries, lastTurn };
}

/** Returns the size of a whole prompt in bytes. */
export function promptBytes({ boundaries }: PromptShape): number {
  return boundaries.at(-1)?.bytes ?? 0;
}

/** Returns the digest that stays the same through a conversation: that of its system part, tools and first message. */
export function headOf({ boundaries }: PromptShape): string {
  return (boundaries[1] ?? boundaries[0])?.hash ?? "";
}

function isMarked({ parts }: Message): boolean {
  return parts.some(({ cacheBreakpoint }) => cacheBreakpoint);
}

function addMessage(section: Section, { role, name, parts }: Message): void {
  section.add("message", String(role), name ?? "", String(parts.length));
  for (const part of parts) addPart(section, part);
}

function addPart(section: Section, { kind }: Part): void {
  switch (kind?.$case) {
    case undefined:
      return;
    case "text":
      section.add("text", kind.value.text);
      return;
    case "reasoning":
      section.add("reasoning", kind.value.text, kind.value.signature, String(kind.value.redacted));
      return;
    case "toolCall":
      section.add("call", kind.value.callId, kind.value.name, kind.value.argumentsJson);
      return;
    case "toolResult": {
      const { callId, name, isError, content } = kind.value;
      section.add("result", callId, name, String(isError), String(content.length));
      for (const part of content) addPart(section, part);
      return;
    }
    case "image": {
      const { contentSha256, source, mimeType, detail } = kind.value;
      const identity = contentSha256.length > 0 ? contentSha256 : (source?.value ?? "");
      section.addImage(identity, mimeType, detail);
      return;
    }
    default:
      kind satisfies never;
  }
}

/** The size of what is gathered before it is digested, in bytes: nearly all messages of a conversation are shorter. */
const GATHERED_BYTES = 64 * 1024;
/** The most bytes of UTF-8 that a character of a string can take. */
const MAX_CHARACTER_BYTES = 3;

/** Where a section is gathered; one is digested at a time. */
const gathered = new HmacParts(GATHERED_BYTES);
const { inner } = gathered;

/**
 * Digests and measures what stands between two boundaries, by HMAC with SHA-256. The fields of a section are gathered and
 * digested in one step: making a digest that takes pieces costs several times as much as hashing a short text.
 */
class Section {
  readonly #key: Uint8Array;
  /** Where what is gathered ends. */
  #at = HMAC_BLOCK_BYTES;
  /** Takes what does not fit; undefined as long as everything has. */
  #overflow: Hmac | undefined;
  #bytes = 0;

  /** Begins a section under the key that `gathered` has. */
  constructor(key: Uint8Array, before: string) {
    this.#key = key;
    this.#put(before);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Digests fields with their lengths, which keep ("ab", "c") and ("a", "bc") apart, and counts their bytes. */
  add(tag: string, ...fields: readonly (string | Buffer)[]): void {
    this.#put(`\0${tag}`);
    for (const field of fields) this.#bytes += this.#field(field);
  }

  addImage(identity: string | Buffer, mimeType: string, detail: number): void {
    this.#put("\0image");
    for (const field of [identity, mimeType, String(detail)]) this.#field(field);
    this.#bytes += IMAGE_BYTES;
  }

  digest(): string {
    if (this.#overflow) return this.#flushed().digest().toString("base64url", 0, DIGEST_BYTES);
    return gathered.digest(this.#at).toString("base64url", 0, DIGEST_BYTES);
  }

  /** Takes a field behind its length in bytes, which is returned. */
  #field(field: string | Buffer): number {
    const bytes = Buffer.byteLength(field);
    this.#put(`\0${bytes}\0`);
    this.#put(field);
    return bytes;
  }

  #put(field: string | Buffer): void {
    const mostBytes = typeof field === "string" ? field.length * MAX_CHARACTER_BYTES : field.length;
    if (mostBytes > inner.length - this.#at) this.#flushed();
    if (mostBytes > inner.length - this.#at) this.#overflow?.update(field);
    else this.#at += typeof field === "string" ? inner.write(field, this.#at) : field.copy(inner, this.#at);
  }

  /** Digests what is gathered, to make room. Returns what takes the rest. */
  #flushed(): Hmac {
    this.#overflow ??= createHmac("sha256", this.#key);
    this.#overflow.update(inner.subarray(HMAC_BLOCK_BYTES, this.#at));
    this.#at = HMAC_BLOCK_BYTES;
    return this.#overflow;
  }
}
