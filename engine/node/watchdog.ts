import type { Logger } from "pino";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { Backend, EngineSteps } from "../backend.ts";
import { EngineError } from "../errors.ts";
import type { NodeState } from "./node-state.ts";

/** The number of checks within `stallMs`. */
const LOOKS = 4;

export type WatchdogOptions = {
  readonly clock: Clock;
  /** The milliseconds that steps in flight may make no progress before the engine counts as stalled. */
  readonly stallMs: number;
  /** The milliseconds without a step after which the engine counts as hung. Default: never. */
  readonly hangMs?: number | undefined;
  /** Returns the engine's step counter; undefined if the engine does not count its steps. */
  readonly steps: () => EngineSteps | undefined;
  /** Called once when steps have been in flight for `stallMs` without progress. */
  readonly onStall: () => void;
  /** Called once when a stalled engine makes steps again. */
  readonly onRecover: () => void;
  /** Called at every check of a stalled engine without work: it gives the engine a request to show progress with. */
  readonly probe: () => void;
};

/**
 * Detects an engine that makes no progress while work runs. An engine that does not count its steps is never reported.
 */
export class Watchdog {
  readonly #options: WatchdogOptions;
  #cancel: (() => void) | undefined;
  #lookedMs = 0;
  /** The milliseconds without a step while the engine owed one. Departing callers do not reset it: they retry. */
  #stillMs = 0;
  #stalled = false;
  #last: EngineSteps | undefined;

  constructor(options: WatchdogOptions) {
    this.#options = options;
  }

  /**
   * The milliseconds for which running work has had no step, beyond the time that one may take; 0 if the engine makes
   * progress or is idle.
   */
  get stepAgeMs(): number {
    const { inFlight = 0, stepTimeoutMs = 0 } = this.#last ?? {};
    return this.#stalled || inFlight > 0 ? Math.max(0, this.#stillMs - stepTimeoutMs) : 0;
  }

  /**
   * Whether the engine is up and has made no step for `hangMs`, or no first step within its start timeout. Only a
   * restart helps then.
   */
  get hung(): boolean {
    const { hangMs = Number.POSITIVE_INFINITY } = this.#options;
    const { down = false, startTimeoutMs = 0 } = this.#last ?? {};
    return !down && this.stepAgeMs >= Math.max(hangMs, startTimeoutMs);
  }

  start(): void {
    this.#lookedMs = this.#options.clock.nowMs();
    this.#last = this.#options.steps();
    this.#arm();
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(): void {
    const { clock, stallMs } = this.#options;
    this.#cancel = clock.after(stallMs / LOOKS, () => {
      this.#arm();
      this.#look();
    });
  }

  #look(): void {
    const { clock, stallMs, steps, onStall, onRecover, probe } = this.#options;
    const now = clock.nowMs();
    // A process that was itself suspended has not watched the engine for all of that time.
    const watchedMs = Math.min(now - this.#lookedMs, (2 * stallMs) / LOOKS);
    this.#lookedMs = now;
    const before = this.#last;
    this.#last = steps();
    const { made, inFlight = 0, down = false } = this.#last ?? {};
    // Steps owed to a restarted engine count from its start.
    if (before?.down && !down) this.#stillMs = 0;
    if (made === undefined || made !== before?.made) {
      this.#stillMs = 0;
      if (!this.#stalled) return;
      this.#stalled = false;
      onRecover();
    } else {
      if (inFlight > 0 || this.#stalled) this.#stillMs += watchedMs;
      if (this.#stalled) {
        if (inFlight === 0) probe();
      } else if (this.stepAgeMs >= stallMs) {
        this.#stalled = true;
        onStall();
      }
    }
  }
}

/** The running generations, which fail when the engine stalls. */
export type RunningCalls = {
  readonly running: number;
  stopAll(error: EngineError): void;
};

export type WatchedNode = {
  /** The backend, whose steps are watched and which is probed. */
  readonly backend: Backend;
  /** The ids of the models; a probe uses the first. */
  readonly models: readonly string[];
  readonly clock: Clock;
  /** The milliseconds without a step, while work runs, after which the node leaves service. */
  readonly stallMs: number;
  /** The milliseconds without a step after which the engine counts as hung; undefined: never. */
  readonly hangMs?: number | undefined;
  /** The state of the node, which alternates between `serving` and `stalled`. */
  readonly state: NodeState;
  readonly calls: RunningCalls;
  readonly log: Logger;
  /** Called after the node has left or rejoined service. */
  readonly onChange: () => void;
  /** Aborted when the node closes; ends a probe. */
  readonly signal: AbortSignal;
};

/**
 * Creates the watchdog of a node, not yet started. A stalled engine fails its running generations, and the node accepts
 * nothing new until the steps resume.
 */
export function watchNode(node: WatchedNode): Watchdog {
  const { backend, models, clock, stallMs, hangMs, state, calls, log, onChange, signal } = node;
  return new Watchdog({
    clock,
    stallMs,
    hangMs,
    steps: () => backend.load().steps,
    onStall: () => {
      if (!state.become("stalled")) return;
      log.error({ running: calls.running }, "the engine has stalled: out of service");
      calls.stopAll(state.refusal());
      onChange();
    },
    onRecover: () => {
      if (!state.become("serving")) return;
      log.warn("the engine makes steps again: back in service");
      onChange();
    },
    probe: () => probeBackend(backend, models, stallMs, clock, signal),
  });
}

/**
 * Requests one token from the backend, for at most `timeoutMs` milliseconds. The result is ignored: only the step
 * counter shows whether the engine makes progress.
 */
function probeBackend(
  backend: Backend,
  models: readonly string[],
  timeoutMs: number,
  clock: Clock,
  signal: AbortSignal,
): void {
  const give = new AbortController();
  const up = () => give.abort(new EngineError("CANCELLED", "The probe has ended."));
  const cancel = clock.after(timeoutMs, up);
  signal.addEventListener("abort", up);
  const request: GenerateRequest = {
    ...GenerateRequest.create(),
    requestId: "probe",
    model: models[0] ?? "",
    messages: [{ role: Role.USER, parts: [{ kind: { $case: "text", value: { text: "." } } }] }],
    maxOutputTokens: 1,
  };
  const run = async () => {
    for await (const _ of backend.generate(request, give.signal)) if (give.signal.aborted) break;
  };
  run()
    .catch(() => {})
    .finally(() => {
      cancel();
      signal.removeEventListener("abort", up);
    });
}
