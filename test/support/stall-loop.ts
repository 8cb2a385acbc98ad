/**
 * Blocks the event loop of this process for `ms` milliseconds, from its immediates phase on: bytes that arrive
 * meanwhile stay with the system, and timers that expire meanwhile run before any of them is read. `act` runs at the
 * beginning of the stall: its writes arrive during the stall.
 */
export async function stallLoop(ms: number, act: () => void): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
  act();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
