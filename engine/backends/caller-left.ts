import { EngineError } from "../errors.ts";

/** Returns the error that work ends with when its signal was aborted: the reason given, if it is one of ours. */
export function callerLeft(signal: AbortSignal): EngineError {
  return signal.reason instanceof EngineError ? signal.reason : new EngineError("CANCELLED", "The caller has left.");
}

/** Throws `callerLeft` when the signal is aborted. */
export function throwIfLeft(signal: AbortSignal): void {
  if (signal.aborted) throw callerLeft(signal);
}
