import { randomId } from "./random-id.ts";

/** Where a request stands in a distributed trace: W3C Trace Context, level 1. */
export type TraceContext = {
  /** 32 lower-case hex digits, never all zero: the caller's, or new. */
  readonly traceId: string;
  /** The caller's span, 16 hex digits; undefined where the trace begins here. */
  readonly parentId: string | undefined;
  /** 16 lower-case hex digits: the span of the request in this gateway. */
  readonly spanId: string;
  /** Two hex digits. As they came, or `00` where the trace begins here; then a head sampler has its say on the last bit. */
  readonly flags: string;
  /** Other systems' state, passed on as it came. */
  readonly state: string | undefined;
};

/** Whether a trace that its caller does not sample shall be sampled from here on, by its id. */
export type HeadSampler = (traceId: string) => boolean;

const SAMPLED = 0x01;

/** Version 00 has nothing behind its flags; a later one may. `ff` is no version. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;
/** The standard asks for this much to be passed on. */
const MAX_STATE_LENGTH = 512;
/** Up to 32 `key=value`, as the standard spells them: nothing that could not stand in a header again. */
const STATE_MEMBER = /^[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x21-\x2b\x2d-\x3c\x3e-\x7e]{1,256}$/;
const MAX_STATE_MEMBERS = 32;

/**
 * The context of a request, from its headers `traceparent` and `tracestate`. A trace that cannot be read is begun anew,
 * and its state dropped, as the standard asks for. Without a head sampler nothing is decided here. `newId(bytes)` gives so
 * many random bytes as hex digits.
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
    const begun = flagsOf("00", fresh, headSampler);
    return { traceId: fresh, parentId: undefined, spanId: newId(8), flags: begun, state: undefined };
  }
  const followed = flagsOf(flags, traceId, headSampler);
  return { traceId, parentId, spanId: newId(8), flags: followed, state: stateOf(tracestate) };
}

/** Whether the trace is recorded, as its caller or the head sampler decided. */
export function isSampled({ flags }: TraceContext): boolean {
  return (Number.parseInt(flags, 16) & SAMPLED) !== 0;
}

/** The same place in the trace under another span: what goes along with a call that has a span of its own. */
export function underSpan(trace: TraceContext, spanId: string = newSpanId()): TraceContext {
  return { ...trace, parentId: trace.spanId, spanId };
}

/** What goes on to the engine: `baggage` does not, it may hold anything. */
export function traceHeaders({ traceId, spanId, flags, state }: TraceContext): Readonly<Record<string, string>> {
  const traceparent = `00-${traceId}-${spanId}-${flags}`;
  return state === undefined ? { traceparent } : { traceparent, tracestate: state };
}

/** 16 random hex digits. */
export function newSpanId(): string {
  return randomHex(8);
}

function flagsOf(flags: string, traceId: string, headSampler: HeadSampler | undefined): string {
  if (!headSampler?.(traceId)) return flags;
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

/** Up to 16 bytes. The end of an id is its most random part, as samplers expect of the end of a trace's id. */
function randomHex(bytes: number): string {
  return randomId().slice(-2 * bytes);
}
