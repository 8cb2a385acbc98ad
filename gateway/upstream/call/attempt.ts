import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Detail } from "../../outcome.ts";
import type { NotKept } from "../continuation/continuation-room.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import type { CacheNote } from "../load-balancing/cache-reasons.ts";
import type { CallHeaders } from "../wire/generate-wire.ts";
import type { Deltas } from "./delta-reader.ts";
import { callGenerate, type Flow, type GenerateCallOptions } from "./generate-call.ts";
import { otherAnswer, ourFault, type UpstreamFailure } from "./grpc-error.ts";

/** The end of an attempt; `cancelled` also where this gateway has to stop. */
export type AttemptEnd = UpstreamFailure | "answered" | "cancelled";

export type AttemptTrace = {
  readonly headers: CallHeaders;
  ended(how: AttemptEnd): void;
};

export type CallRecord = {
  /** Records a Generate call about to be sent. `continuedTokens`: those of an answer begun elsewhere. */
  generateSent(address: string, continuedTokens?: number): AttemptTrace;
  /** Records a CountTokens call about to be sent. Returns its headers. */
  countSent(address: string): CallHeaders;
  /** Records why no other engine could continue the answer. */
  notKept(why: NotKept): void;
  overdue(): void;
  cached(note: CacheNote): void;
  /** Records a failed call; another may follow, whose end does not include this failure. */
  tryFailed(detail: Detail): void;
};

export type Outcome = "ok" | "failed" | "cancelled" | "refused";

export type RunningTry = {
  end(outcome: Outcome): void;
};

export type AttemptPlace = {
  readonly member: {
    readonly endpoint: Endpoint;
    /** Counts an attempt as running; `continues`: it continues an answer that another endpoint began. */
    beginCall(continues: boolean): RunningTry;
  };
  readonly placement: { see(events: readonly Event[]): void } | undefined;
  release(): void;
};

export type AttemptOptions = {
  readonly place: AttemptPlace;
  /** The call, without the parts that follow from place and gate: the endpoint and the receivers of events. */
  readonly call: Omit<GenerateCallOptions, "endpoint" | "onEvents" | "onDeltas">;
  readonly continues: boolean;
  readonly answer: {
    /** The events to pass on; undefined where a continuing engine sends a different answer. */
    take(events: readonly Event[], tokens: readonly number[]): readonly Event[] | undefined;
    /** Accepts deltas; runs for nearly every delta. Returns false where `take` has to compare them. */
    takeDeltas(texts: readonly string[], tokens: readonly number[]): boolean;
  };
  readonly gate: {
    readonly takesDeltas: boolean;
    pass(events: readonly Event[], flow: Flow): void;
    passDeltas(deltas: Deltas, flow: Flow): void;
  };
  /** Called once with the end of the attempt, before its place is free for others. */
  readonly onEnd: (end: AttemptEnd) => void;
};

/** Makes one attempt. Never rejects; aborting the signal cancels the call. */
export async function runAttempt(
  { answer, call, continues, gate, place, onEnd }: AttemptOptions,
  signal: AbortSignal,
): Promise<AttemptEnd> {
  const { placement } = place;
  const { endpoint } = place.member;
  const load = place.member.beginCall(continues);
  const onEvents = (events: readonly Event[], tokens: readonly number[], flow: Flow) => {
    placement?.see(events);
    const passed = answer.take(events, tokens);
    if (!passed) return otherAnswer();
    if (passed.length > 0) gate.pass(passed, flow);
    return undefined;
  };
  // Runs for nearly every delta. The placement learns nothing from it: it has received the first one.
  const onDeltas = (deltas: Deltas, flow: Flow) => {
    if (!gate.takesDeltas || !answer.takeDeltas(deltas.texts, deltas.tokens)) return false;
    gate.passDeltas(deltas, flow);
    return true;
  };
  const failure = await callGenerate({ endpoint, onEvents, onDeltas, ...call }, signal).catch(ourFault);
  const end = signal.aborted ? "cancelled" : (failure ?? "answered");
  load.end(outcomeOf(end));
  onEnd(end);
  place.release();
  return end;
}

function outcomeOf(end: AttemptEnd): Outcome {
  if (end === "cancelled") return "cancelled";
  if (end === "answered") return "ok";
  return end.retriable ? "failed" : "refused";
}
