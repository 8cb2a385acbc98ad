import { getHeapStatistics } from "node:v8";

/**
 * The size of a thread's heap, in bytes, from which it is not kept: V8 gives little of it back. A new thread has some
 * 15 MiB, one that has translated long conversations of agents some 40; a body of 30,000 short messages leaves 80.
 */
const GROWN_BYTES = 56 * 1024 * 1024;

/** What every reply of a thread says of the thread itself. */
export type ThreadReply = {
  /** Whether the thread's heap has grown, so that the thread had better be replaced. Default: false. */
  readonly hasGrown?: boolean;
};

/** Returns what a reply of the calling thread says of the thread. */
export function ofThisThread(): ThreadReply {
  return { hasGrown: getHeapStatistics().total_heap_size > GROWN_BYTES };
}
