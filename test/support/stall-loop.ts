/**
 * Holds the event loop of this process for `ms` milliseconds, from its phase of immediates on: what other sockets are sent
 * meanwhile lies with the system, and timers that expire meanwhile run before any of it is read. `act` runs at the
 * beginning of the stall: what it writes is such.
 */
export async function stallLoop(ms: number, act: () => void): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
  act();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
