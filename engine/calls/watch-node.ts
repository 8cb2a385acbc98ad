import type { Logger } from "pino";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { Backend } from "../backend.ts";
import type { NodeState } from "../node/node-state.ts";
import { probeBackend } from "../node/probe-backend.ts";
import { Watchdog } from "../node/watchdog.ts";
import type { OpenCalls } from "./open-calls.ts";

export type WatchedNode = {
  readonly backend: Backend;
  readonly models: readonly string[];
  readonly clock: Clock;
  readonly stallMs: number;
  readonly state: NodeState;
  readonly calls: OpenCalls;
  readonly log: Logger;
  /** The node has left service or come back. */
  readonly onChange: () => void;
  /** Aborted when the node closes. */
  readonly signal: AbortSignal;
};

/** A watchdog over a node: a stalled engine fails what runs and takes nothing new until its steps go on. */
export function watchNode(node: WatchedNode): Watchdog {
  const { backend, models, clock, stallMs, state, calls, log, onChange, signal } = node;
  return new Watchdog({
    clock,
    stallMs,
    steps: () => backend.load().steps,
    onStall: () => {
      if (!state.become("stalled")) return;
      log.error({ running: calls.running }, "the engine does not move: out of service");
      calls.stopAll(state.refusal());
      onChange();
    },
    onRecover: () => {
      if (!state.become("serving")) return;
      log.warn("the engine moves again: back in service");
      onChange();
    },
    probe: () => probeBackend(backend, models, stallMs, clock, signal),
  });
}
