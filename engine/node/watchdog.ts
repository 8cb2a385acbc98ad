import type { Logger } from "pino";
import { onAbort } from "../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { Backend, EngineSteps } from "../backend.ts";
import { says, textPart } from "../conversation/history/model-history.ts";
import { EngineError } from "../errors.ts";
import type { NodeState } from "./node-state.ts";

const CHECKS = 4;
const MAX_CHECK_MS = 1_000;
/** A multiple of `stallMs` without a step after which only a restart helps. */
const HANG_FACTOR = 10;

export type WatchdogOptions = {
  readonly clock: Clock;
  /** The milliseconds without a step, while steps are in flight, after which the engine counts as stalled. */
  readonly stallMs: number;
  readonly steps: () => EngineSteps | undefined;
  readonly onStall: () => void;
  readonly onRecover: () => void;
  /** Called at every check of a stalled engine without work: gives the engine a request to show progress with. */
  readonly probe: () => void;
};

/**
 * Reports an engine that makes no step for `stallMs`, and at once one that is down, or that answers nothing while it owes
 * a step. An engine that does not count its steps is not reported for their age.
 */
export class Watchdog {
  readonly #options: WatchdogOptions;
  #cancel: (() => void) | undefined;
  #checkedMs = 0;
  /** The milliseconds without a step while the engine owed one. Departing callers do not reset it: they retry. */
  #stillMs = 0;
  #stalled = false;
  #last: EngineSteps | undefined;

  constructor(options: WatchdogOptions) {
    this.#options = options;
  }

  /** For which running work has had no step, beyond the time that one may take; 0 while idle. */
  get stepAgeMs(): number {
    const { inFlight = 0, stepTimeoutMs = 0 } = this.#last ?? {};
    return this.#stalled || inFlight > 0 ? Math.max(0, this.#stillMs - stepTimeoutMs) : 0;
  }

  /** Whether the engine is up and has made no step for ten times `stallMs`, or no first step within its start timeout. */
  get hung(): boolean {
    const { down = false, startTimeoutMs = 0 } = this.#last ?? {};
    return !down && this.stepAgeMs >= Math.max(HANG_FACTOR * this.#options.stallMs, startTimeoutMs);
  }

  start(): void {
    this.#checkedMs = this.#options.clock.nowMs();
    this.#last = this.#options.steps();
    this.#arm();
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(): void {
    const { clock, stallMs } = this.#options;
    this.#cancel = clock.after(Math.min(stallMs / CHECKS, MAX_CHECK_MS), () => {
      this.#arm();
      this.#check();
    });
  }

  #check(): void {
    const { clock, stallMs, steps, onStall, onRecover, probe } = this.#options;
    const now = clock.nowMs();
    // A process that was itself suspended has not watched the engine for all of that time.
    const watchedMs = Math.min(now - this.#checkedMs, (2 * stallMs) / CHECKS);
    this.#checkedMs = now;
    const before = this.#last;
    this.#last = steps();
    const { made, inFlight = 0, down = false, silent = false } = this.#last ?? {};
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
      } else if (down || silent || this.stepAgeMs >= stallMs) {
        this.#stalled = true;
        onStall();
      }
    }
  }
}

export type WatchedNode = {
  readonly backend: Backend;
  readonly models: readonly string[];
  readonly clock: Clock;
  readonly stallMs: number;
  readonly state: NodeState;
  readonly calls: { readonly running: number; stopAll(error: EngineError): void };
  readonly log: Logger;
  readonly onChange: () => void;
  readonly signal: AbortSignal;
};

/**
 * Creates the watchdog of a node, not yet started. A stalled engine fails its running generations, and the node accepts
 * nothing new until the steps resume.
 */
export function watchNode(node: WatchedNode): Watchdog {
  const { backend, models, clock, stallMs, state, calls, log, onChange, signal } = node;
  return new Watchdog({
    clock,
    stallMs,
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

/** Requests one token from the backend. The result is ignored: only the step counter shows progress. */
function probeBackend(
  backend: Backend,
  models: readonly string[],
  timeoutMs: number,
  clock: Clock,
  closing: AbortSignal,
): void {
  const ended = new AbortController();
  const end = () => ended.abort(new EngineError("CANCELLED", "The probe has ended."));
  const cancel = clock.after(timeoutMs, end);
  const release = onAbort(closing, end);
  const request: GenerateRequest = {
    ...GenerateRequest.create(),
    requestId: "probe",
    model: models[0] ?? "",
    messages: [says(Role.USER, textPart("."))],
    maxOutputTokens: 1,
  };
  const run = async () => {
    for await (const _ of backend.generate(request, ended.signal)) if (ended.signal.aborted) break;
  };
  void run()
    .catch(() => {})
    .finally(() => {
      cancel();
      release();
    });
}
