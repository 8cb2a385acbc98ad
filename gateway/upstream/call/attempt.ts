import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import type { AttemptEnd } from "./call-record.ts";
import type { Deltas } from "./delta-reader.ts";
import { callGenerate, type Flow, type GenerateCallOptions } from "./generate-call.ts";
import { otherAnswer, ourFault } from "./grpc-error.ts";

/** The end of an attempt, as the statistics of its endpoint count it. */
export type Outcome = "ok" | "failed" | "cancelled" | "refused";

/** An attempt that counts as running on its endpoint until it is ended. */
export type RunningTry = {
  /** Removes the attempt from the endpoint, and counts its outcome. Idempotent. */
  end(outcome: Outcome): void;
};

/** The place on an endpoint held by one attempt of a request. */
export type AttemptPlace = {
  /** The member of the cluster on whose endpoint the place is. */
  readonly member: {
    readonly endpoint: Endpoint;
    /** Counts an attempt as running; `continues`: it continues an answer that another endpoint began. */
    beginCall(continues: boolean): RunningTry;
  };
  /** Follows the attempt for the load-balancing policy; undefined where the policy learns nothing from attempts. */
  readonly placement: { see(events: readonly Event[]): void } | undefined;
  /** Returns the place at the end of the attempt. Idempotent. */
  release(): void;
};

export type AttemptOptions = {
  /** The place that the attempt holds, and releases at its end. */
  readonly place: AttemptPlace;
  /** The call, without the parts that follow from place and gate: the endpoint and the receivers of events. */
  readonly call: Omit<GenerateCallOptions, "endpoint" | "onEvents" | "onDeltas">;
  /** Whether the attempt continues an answer that another endpoint began. */
  readonly continues: boolean;
  /** The answer that the attempt is for, which tracks the part passed on. */
  readonly answer: {
    /**
     * Returns the events of a message to pass on; undefined where the engine was to continue an answer and sends a
     * different one.
     */
    take(events: readonly Event[], tokens: readonly number[]): readonly Event[] | undefined;
    /** Accepts deltas; runs for nearly every delta. Returns false where `take` has to compare them. */
    takeDeltas(texts: readonly string[], tokens: readonly number[]): boolean;
  };
  /** Receives the events to pass on. */
  readonly gate: {
    readonly takesDeltas: boolean;
    pass(events: readonly Event[], flow: Flow): void;
    passDeltas(deltas: Deltas, flow: Flow): void;
  };
  /** Called once with the end of the attempt, before its place is free for others. */
  readonly onEnd: (end: AttemptEnd) => void;
};

/**
 * Makes one attempt of a request on one endpoint, including everything that begins and ends with it. Resolves at the
 * end of the attempt, with any result, and never rejects; aborting the signal cancels the call.
 */
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

/** Returns the outcome that the end of an attempt counts as. */
function outcomeOf(end: AttemptEnd): Outcome {
  if (end === "cancelled") return "cancelled";
  if (end === "answered") return "ok";
  return end.retriable ? "failed" : "refused";
}
