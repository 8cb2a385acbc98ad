import { setMaxListeners } from "node:events";
import type { Clock } from "./clock.ts";

/*
 * Waits that end early when a signal is aborted. Node's own functions are not sufficient: `events.once` never resolves
 * for a signal that is already aborted, `timers/promises` uses the machine's clock only, and `AbortSignal.any` retains
 * memory in long-lived sources for every derived signal (Node 20 and 24). The functions here leave no listeners behind.
 */

/**
 * Calls `run` once when `signal` is aborted, and at once if it is already. The returned function removes the listener;
 * calling it later, or again, has no effect.
 */
export function onAbort(signal: AbortSignal, run: () => void): () => void {
  if (signal.aborted) {
    run();
    return () => {};
  }
  // Many listeners may wait for a signal that lives as long as the process; all of them are removed.
  setMaxListeners(0, signal);
  signal.addEventListener("abort", run, { once: true });
  return () => signal.removeEventListener("abort", run);
}

/**
 * Waits until `begin` calls its argument, or until `signal` is aborted. Resolves to the value of that call, and to
 * undefined if the signal came first; never rejects. `begin` may return a clean-up function, which is called once when
 * the wait has ended, in either way. `begin` is not called if the signal is already aborted.
 */
export function waitUnlessAborted<T>(
  signal: AbortSignal,
  begin: (resolve: (value: T) => void) => (() => void) | undefined,
): Promise<T | undefined> {
  if (signal.aborted) return Promise.resolve(undefined);
  return new Promise((resolve) => {
    let cleanUp: (() => void) | undefined;
    let over = false;
    const end = (value?: T) => {
      if (over) return;
      over = true;
      stopListening();
      cleanUp?.();
      resolve(value);
    };
    const stopListening = onAbort(signal, () => end());
    cleanUp = begin(end);
    // `begin` may have called back before it returned.
    if (over) cleanUp?.();
  });
}

/** Resolves when `signal` is aborted, at once if it is already. Never rejects. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    onAbort(signal, resolve);
  });
}

/** Makes a controller whose signal may have any number of listeners: Node warns of more than ten. */
export function sharedAbort(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

export type LinkedAbort = {
  readonly signal: AbortSignal;
  readonly abort: (reason: unknown) => void;
  readonly release: () => void;
};

/** Makes a signal for one piece of work that follows all of `sources` until it is released. */
export function linkAbort(...sources: readonly AbortSignal[]): LinkedAbort {
  const linked = new AbortController();
  const releases = sources.map((source) => onAbort(source, () => linked.abort(source.reason)));
  return {
    signal: linked.signal,
    abort: (reason) => linked.abort(reason),
    release: () => {
      for (const release of releases) release();
    },
  };
}

/** Resolves after `ms` milliseconds, or when `signal` is aborted. Never rejects. */
export async function sleep(clock: Pick<Clock, "after">, ms: number, signal: AbortSignal): Promise<void> {
  await waitUnlessAborted<void>(signal, (wake) => clock.after(ms, wake));
}
