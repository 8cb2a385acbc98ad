import { EngineError } from "../errors.ts";

/** Returns the error of aborted work: the signal's reason if it is an `EngineError`, else CANCELLED. */
export function callerLeft(signal: AbortSignal): EngineError {
  return signal.reason instanceof EngineError ? signal.reason : new EngineError("CANCELLED", "The caller has left.");
}

export function throwIfLeft(signal: AbortSignal): void {
  if (signal.aborted) throw callerLeft(signal);
}
