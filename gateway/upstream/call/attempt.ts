import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import type { AttemptEnd } from "./call-record.ts";
import type { Deltas } from "./delta-reader.ts";
import { callGenerate, type Flow, type GenerateCallOptions } from "./generate-call.ts";
import { otherAnswer, ourFault } from "./grpc-error.ts";

/** How a try ended, as the statistics of its endpoint count it. */
export type Outcome = "ok" | "failed" | "cancelled" | "refused";

/** A try that counts as running on its endpoint until it is ended. */
export type RunningTry = {
  /** Takes the try off the endpoint, and counts how it ended. A second call does nothing. */
  end(outcome: Outcome): void;
};

/** The place on an endpoint that one try of a request holds. */
export type AttemptPlace = {
  /** The member of the cluster on whose endpoint the place is. */
  readonly member: {
    /** The endpoint that is called. */
    readonly endpoint: Endpoint;
    /** Counts a try as running; `continues` says that it goes on with an answer which another endpoint began. */
    beginCall(continues: boolean): RunningTry;
  };
  /** Follows the try for the load-balancing policy; undefined where the policy learns nothing from tries. */
  readonly placement: { see(events: readonly Event[]): void } | undefined;
  /** Gives the place back when the try is over. A second call does nothing. */
  release(): void;
};

/** The parts of one attempt. */
export type AttemptOptions = {
  /** The place that the try holds, which it gives back when it is over. */
  readonly place: AttemptPlace;
  /** The call to make, without what the place and the gate decide: the endpoint, and who takes the events. */
  readonly call: Omit<GenerateCallOptions, "endpoint" | "onEvents" | "onDeltas">;
  /** Whether the try goes on with an answer that another endpoint began. */
  readonly continues: boolean;
  /** The answer that the try is for, which knows what of it has been passed on. */
  readonly answer: {
    /**
     * Lets through what of a message is to be passed on; undefined where the engine was to go on with an answer and tells
     * another one.
     */
    take(events: readonly Event[], tokens: readonly number[]): readonly Event[] | undefined;
    /** Lets deltas through, on the path of nearly every delta. Returns false where `take` has to look at them. */
    takeDeltas(texts: readonly string[], tokens: readonly number[]): boolean;
  };
  /** Takes what of the try is to be passed on. */
  readonly gate: {
    readonly takesDeltas: boolean;
    pass(events: readonly Event[], flow: Flow): void;
    passDeltas(deltas: Deltas, flow: Flow): void;
  };
  /** Called once with how the try ended, before its place is free for others. */
  readonly onEnd: (end: AttemptEnd) => void;
};

/**
 * Makes one try of a request on one endpoint: all that begins and ends with it. Resolves when the try is over, whichever
 * way, and never rejects; aborting the signal cancels the call.
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
  // On the path of nearly every delta. The placement learns nothing from it: it has seen the first one.
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

/** Returns how the end of an attempt counts for its endpoint. */
function outcomeOf(end: AttemptEnd): Outcome {
  if (end === "cancelled") return "cancelled";
  if (end === "answered") return "ok";
  return end.retriable ? "failed" : "refused";
}
