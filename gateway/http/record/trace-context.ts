import { randomUUID } from "node:crypto";

/**
 * Returns an id of 32 characters of `[0-9a-f]`, 122 bits of them random. Node generates UUIDs in batches, so few of
 * them cost a system call.
 */
export function randomId(): string {
  return randomUUID().replaceAll("-", "");
}

/** Trace context of a request: W3C Trace Context, level 1. */
export type TraceContext = {
  /** Id of the trace, the caller's or a new one: 32 lower-case hex digits, never all zero. */
  readonly traceId: string;
  /** Id of the caller's span, 16 lower-case hex digits; undefined if the trace begins here. */
  readonly parentId: string | undefined;
  /** Id of the request's span in this gateway, 16 lower-case hex digits. */
  readonly spanId: string;
  /** Two hex digits: as received, `00` if the trace begins here; a head sampler may set the last bit, sampled. */
  readonly flags: string;
  /** The received `tracestate`, passed on unchanged, if any. */
  readonly state: string | undefined;
};

/** Decides by its id whether a trace that its caller does not sample is sampled from here on. */
export type HeadSampler = (traceId: string) => boolean;

const SAMPLED = 0x01;

/** The form of a `traceparent`. Version 00 ends with its flags; later ones may not. `ff` is no version. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;
/** Longest `tracestate` that is passed on, in characters, as the standard requires. */
const MAX_STATE_LENGTH = 512;
/** One `key=value` of a `tracestate`, as the standard defines it: only characters that are valid in a header. */
const STATE_MEMBER = /^[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x21-\x2b\x2d-\x3c\x3e-\x7e]{1,256}$/;
const MAX_STATE_MEMBERS = 32;

/**
 * Returns the trace context of a request, from its headers `traceparent` and `tracestate`. An invalid trace is replaced
 * by a new one, and its state dropped, as the standard requires. Without a head sampler, sampling is unchanged.
 * `newId(bytes)` returns random bytes as hex digits.
 */
export function traceContextOf(
  { traceparent, tracestate }: { readonly [name: string]: string | readonly string[] | undefined },
  headSampler?: HeadSampler,
  newId: (bytes: number) => string = randomHex,
): TraceContext {
  const [, version, traceId = "", parentId = "", flags = "", more] =
    (typeof traceparent === "string" && TRACEPARENT.exec(traceparent)) || [];
  const valid = version !== undefined && !(version === "00" && more !== undefined);
  if (!valid || ZEROS.test(traceId) || ZEROS.test(parentId)) {
    const fresh = newId(16);
    const begun = headSampler?.(fresh) ? sampled("00") : "00";
    return { traceId: fresh, parentId: undefined, spanId: newId(8), flags: begun, state: undefined };
  }
  const followed = headSampler?.(traceId) ? sampled(flags) : flags;
  return { traceId, parentId, spanId: newId(8), flags: followed, state: stateOf(tracestate) };
}

/** Returns whether the trace is recorded, as its caller or the head sampler decided. */
export function isSampled({ flags }: TraceContext): boolean {
  return (Number.parseInt(flags, 16) & SAMPLED) !== 0;
}

/** Returns the trace context of a child call, with a new span id. */
export function underSpan(trace: TraceContext): TraceContext {
  return { ...trace, parentId: trace.spanId, spanId: newSpanId() };
}

/** Returns the trace headers for an engine. `baggage` is not passed on: it may hold any text. */
export function traceHeaders({ traceId, spanId, flags, state }: TraceContext): Readonly<Record<string, string>> {
  const traceparent = `00-${traceId}-${spanId}-${flags}`;
  return state === undefined ? { traceparent } : { traceparent, tracestate: state };
}

/** 16 random hex digits. */
export function newSpanId(): string {
  return randomHex(8);
}

function sampled(flags: string): string {
  return (Number.parseInt(flags, 16) | SAMPLED).toString(16).padStart(2, "0");
}

function stateOf(given: string | readonly string[] | undefined): string | undefined {
  if (typeof given !== "string" || given.length > MAX_STATE_LENGTH) return undefined;
  const members = given
    .split(",")
    .map((member) => member.trim())
    .filter((member) => member !== "");
  if (members.length === 0 || members.length > MAX_STATE_MEMBERS) return undefined;
  return members.every((member) => STATE_MEMBER.test(member)) ? members.join(",") : undefined;
}

/** Up to 16 random bytes as hex digits: the end is the most random part, as samplers expect of a trace id. */
function randomHex(bytes: number): string {
  return randomId().slice(-2 * bytes);
}
