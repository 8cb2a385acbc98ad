import { linkAbort } from "../../../deploy/runtime/time/abort.ts";
import { durationMs } from "../../../deploy/runtime/time/clock.ts";
import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { PrefillOutcome } from "../../stats/upstream-stats.ts";
import type { Admitted } from "../admission/slot-request.ts";
import { callGenerate, type GenerateCallOptions } from "../call/generate-call.ts";
import { ourFault } from "../call/grpc-error.ts";
import type { RetryBoundary } from "../call/retry-boundary.ts";
import type { ClusterMember } from "../cluster/cluster-member.ts";
import type { ClusterTraffic } from "../cluster/cluster-traffic.ts";

/** The shortest time limit of a prefill, in milliseconds; of a long one it is twice the expected time. */
const MIN_LIMIT_MS = 10_000;
const SLOWER = 2;

/** A prompt that a prefill node has read, for one call of another node. */
export type PromptHandOver = {
  readonly bytes: Uint8Array;
  /** The monotonic milliseconds until which the call has to begin. */
  readonly untilMs: number;
};

export type PrefillLegOptions = Pick<GenerateCallOptions, "request" | "headers" | "deadline" | "clock" | "timeouts"> & {
  readonly slot: Admitted<ClusterMember>;
  readonly traffic: ClusterTraffic;
  readonly inputTokens: number;
  /** Receives the signs of life. */
  readonly boundary: Pick<RetryBoundary, "pass">;
  /** Called at the end of the call, which may come behind its hand-over. */
  readonly onEnd: (outcome: PrefillOutcome) => void;
};

/**
 * Has a prefill node read a prompt. Resolves to the hand-over as soon as it can be used, while the call goes on; to
 * undefined where there is none: then the answering node reads the prompt. Never rejects.
 */
export function readElsewhere(options: PrefillLegOptions, signal: AbortSignal): Promise<PromptHandOver | undefined> {
  const { slot, traffic, clock, boundary, onEnd, ...call } = options;
  const { member, observer } = slot;
  const link = linkAbort(signal);
  let isLate = false;
  // The outstanding tokens include those of this prompt.
  const expectedMs = (1_000 * member.outstandingPrefillTokens) / member.prefillTokensPerSecond;
  const stopTimer = clock.after(Math.max(MIN_LIMIT_MS, SLOWER * expectedMs), () => {
    isLate = true;
    link.abort(undefined);
  });
  member.beginCall(false);
  return new Promise((resolve) => {
    let made: PromptHandOver | undefined;
    const take = (events: readonly Event[]) => {
      for (const { kind } of events) {
        if (kind?.$case !== "started" || !kind.value.handOver || !kind.value.handOverTtl) continue;
        made = { bytes: kind.value.handOver, untilMs: clock.nowMs() + durationMs(kind.value.handOverTtl) };
        resolve(made);
      }
      return events.filter(({ kind }) => kind?.$case === "progress");
    };
    const quiet = { takesDeltas: false, passDeltas() {}, pass: boundary.pass.bind(boundary) };
    const reading = callGenerate(
      {
        ...{ ...call, clock, endpoint: member.endpoint, resumption: "none", promptHandOver: "make", observer },
        ...{ answer: { take, takeDeltas: () => false }, boundary: quiet },
      },
      link.signal,
    );
    void reading.catch(ourFault).then((found) => {
      stopTimer();
      link.release();
      const failure = isLate || signal.aborted ? undefined : found;
      member.endCall(failure?.retriable ?? false);
      if (!isLate && !signal.aborted) traffic.report(member.address, failure, clock.nowMs());
      slot.release();
      onEnd(made ? "handed_over" : isLate ? "late" : signal.aborted ? "cancelled" : failure ? "failed" : "not_kept");
      resolve(undefined);
    });
  });
}
