import { ProcessorWaits } from "./processor-waits.ts";

/**
 * Knows how long the main thread of this process has waited for a processor, the one with the event loop that serves
 * everybody: it has the id of the process. It is followed for as long as the process lives.
 */
export const loopWaits = new ProcessorWaits([process.pid]);
