import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Message, Part } from "../../proto/gen/svc/inference/v1/messages.ts";
import { TenantCache } from "../conversation/tenant-cache.ts";
import { EngineError } from "../errors.ts";
import { type PrefixMark, prefixMarks } from "./prefix-marks.ts";

/** The least prompt that is kept, in UTF-16 units of text: gateways send others whole. */
const MIN_UNITS = 16_384;
/** The bytes that a UTF-16 unit, a message and a digest take at most. */
const UNIT_BYTES = 2;
const MESSAGE_BYTES = 400;
const DIGEST_BYTES = 100;

/** Messages of a conversation, to which its turns append, with the digests of the positions among them. */
type Known = {
  readonly key: string;
  readonly tenant: string;
  /** Tenant, salt and model. */
  readonly owner: string;
  readonly messages: Message[];
  readonly digests: Set<string>;
  bytes: number;
};

type Position = { readonly known: Known; readonly messages: number };

/**
 * The messages of prompts, by the digests of their prefixes, so that a request may leave out what an earlier one brought.
 * A tenant finds only its own; bounds are those of `TenantCache`. Cache breakpoints, which move from turn to turn and are
 * not digested, are not kept.
 */
export class KnownPrompts {
  readonly #cache: TenantCache<Known>;
  readonly #positions = new Map<string, Position>();
  #count = 0;

  /** At most `megabytes` of messages; 0 keeps none. */
  constructor(clock: Pick<Clock, "nowMs" | "after">, megabytes: number) {
    this.#cache = new TenantCache(clock, megabytes, (known) => this.#dropped(known));
  }

  get bytes(): number {
    return this.#cache.bytes;
  }

  /**
   * Returns a request with all its messages, and keeps them. Throws `EngineError` PREFIX_UNKNOWN for a base that is not
   * known.
   */
  take(request: GenerateRequest): GenerateRequest {
    const { baseDigest, tenant } = request;
    const owner = JSON.stringify([tenant, request.cache?.isolationSalt ?? "", request.model]);
    const base = baseDigest.length === 0 ? undefined : this.#positions.get(Buffer.from(baseDigest).toString("latin1"));
    if (baseDigest.length > 0 && base?.known.owner !== owner)
      throw new EngineError("PREFIX_UNKNOWN", "The node does not have the base of the prompt.");
    if (!base) {
      this.#keep(request, owner);
      return request;
    }
    const messages = base.known.messages.slice(0, base.messages).concat(request.messages);
    const whole = { ...request, messages, baseDigest: Buffer.alloc(0) };
    this.#keep(whole, owner);
    return whole;
  }

  /** Drops the conversation whose last prompt ends at a digest. */
  drop(digest: string): void {
    const position = this.#positions.get(digest);
    if (position && position.messages === position.known.messages.length)
      this.#cache.delete(position.known.tenant, position.known.key);
  }

  clear(): void {
    this.#cache.clear();
  }

  /** Appends to the conversation that a prompt continues, or begins one with the part that it shares. */
  #keep(request: GenerateRequest, owner: string): void {
    const marks = marksOf(request);
    const last = marks.at(-1);
    if (!last) return;
    const { tenant, messages } = request;
    const base = this.#deepest(marks, owner);
    const isWhole = base !== undefined && base.messages === base.known.messages.length;
    const known = isWhole ? base.known : this.#begun(tenant, owner, base);
    const own = messages.slice(base?.messages ?? 0, last.messages);
    known.messages.push(...own.map(unmarked));
    known.bytes += own.reduce((sum, message) => sum + MESSAGE_BYTES + UNIT_BYTES * unitsOf(message.parts), 0);
    if (known.bytes < UNIT_BYTES * MIN_UNITS) return;
    for (const { digest, messages: count } of marks) {
      if (this.#positions.get(digest)?.known === known) continue;
      known.digests.add(digest);
      known.bytes += DIGEST_BYTES;
      this.#positions.set(digest, { known, messages: count });
    }
    this.#cache.set(tenant, known.key, known, known.bytes);
  }

  #begun(tenant: string, owner: string, base: Position | undefined): Known {
    this.#count += 1;
    const messages = base ? base.known.messages.slice(0, base.messages) : [];
    const bytes = messages.reduce((sum, message) => sum + MESSAGE_BYTES + UNIT_BYTES * unitsOf(message.parts), 0);
    return { key: String(this.#count), tenant, owner, messages, digests: new Set(), bytes };
  }

  #deepest(marks: readonly PrefixMark[], owner: string): Position | undefined {
    for (let at = marks.length - 1; at >= 0; at -= 1) {
      const position = this.#positions.get(marks[at]?.digest ?? "");
      if (position?.known.owner === owner) return position;
    }
    return undefined;
  }

  #dropped(known: Known): void {
    for (const digest of known.digests)
      if (this.#positions.get(digest)?.known === known) this.#positions.delete(digest);
  }
}

/** Empty for digests that do not fit their prompt, which is refused for them later. */
function marksOf(request: GenerateRequest): readonly PrefixMark[] {
  try {
    return prefixMarks(request);
  } catch {
    return [];
  }
}

function unitsOf(parts: readonly Part[]): number {
  let units = 0;
  for (const { kind } of parts) {
    if (kind?.$case === "text" || kind?.$case === "reasoning") units += kind.value.text.length;
    else if (kind?.$case === "toolCall") units += kind.value.argumentsJson.length;
    else if (kind?.$case === "toolResult") units += unitsOf(kind.value.content);
    else if (kind?.$case === "image" && kind.value.source?.$case === "data") units += kind.value.source.value.length;
  }
  return units;
}

/** Returns a message without cache breakpoints. */
function unmarked(message: Message): Message {
  return message.parts.some(isMarked) ? { ...message, parts: message.parts.map(unmarkedPart) } : message;
}

function isMarked({ cacheBreakpoint, kind }: Part): boolean {
  return cacheBreakpoint !== undefined || (kind?.$case === "toolResult" && kind.value.content.some(isMarked));
}

function unmarkedPart(part: Part): Part {
  if (!isMarked(part)) return part;
  const { kind } = part;
  if (kind?.$case !== "toolResult") return { kind, cacheBreakpoint: undefined };
  const value = { ...kind.value, content: kind.value.content.map(unmarkedPart) };
  return { kind: { $case: "toolResult", value }, cacheBreakpoint: undefined };
}
