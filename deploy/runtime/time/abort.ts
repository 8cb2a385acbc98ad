import { setMaxListeners } from "node:events";

/*
 * Waiting that ends early when somebody leaves. Node's own means fall short of it: `events.once` never resolves for a
 * signal that is aborted already, `timers/promises` knows no clock but the machine's, and `AbortSignal.any` keeps
 * something of every signal it ever made in a source that lives as long as the process (Node 20 and 24). Nothing here
 * does: whoever has stopped waiting has left no listener behind.
 */

/**
 * Calls `run` once when `signal` is aborted, and at once when it is already. The returned function lets go of the
 * signal; calling it later, or again, does nothing.
 */
export function onAbort(signal: AbortSignal, run: () => void): () => void {
  if (signal.aborted) {
    run();
    return () => {};
  }
  // Many may wait on a signal that lives as long as the process; all of them let go of it.
  setMaxListeners(0, signal);
  signal.addEventListener("abort", run, { once: true });
  return () => signal.removeEventListener("abort", run);
}

/**
 * Waits until `begin` calls what it was given, or until `signal` is aborted. Resolves to the value of that call, and to
 * undefined when the signal came first; never rejects. `begin` may return a function, which is called once when the
 * wait is over, whichever way. For a signal that is aborted already, `begin` isn't called.
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
      letGo();
      cleanUp?.();
      resolve(value);
    };
    const letGo = onAbort(signal, () => end());
    cleanUp = begin(end);
    // Whatever `begin` has begun is over if it has called back before it returned.
    if (over) cleanUp?.();
  });
}

/** Resolves when `signal` is aborted, at once when it is already. Never rejects. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    onAbort(signal, resolve);
  });
}

/**
 * Makes the controller of a signal that any number of pieces of work follow at once, as that of a program's end. Node
 * takes more than ten listeners of one signal for a leak, and warns.
 */
export function sharedAbort(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

/** A signal that follows others for the time of one piece of work; see `linkAbort`. */
export type LinkedAbort = {
  /** The signal that is aborted with the first of those it follows, for the same reason, or by `abort`. */
  readonly signal: AbortSignal;
  /** Aborts this signal alone. */
  readonly abort: (reason: unknown) => void;
  /** Lets go of the signals that are followed. It is to be called when the work is over. */
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
