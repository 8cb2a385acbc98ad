import { getHeapStatistics } from "node:v8";

/**
 * Heap size of a thread, in bytes, from which it is discarded: V8 releases little of it. A new thread has some 15 MiB,
 * one that has translated long conversations of agents some 40; a body of 30,000 short messages leaves 80.
 */
const GROWN_BYTES = 56 * 1024 * 1024;

/** The part of every thread's reply that is about the thread. */
export type ThreadReply = {
  /** Whether the thread's heap has grown so much that the thread should be replaced. Default: false. */
  readonly hasGrown?: boolean;
};

/** Returns the part of a reply that is about the calling thread. */
export function ofThisThread(): ThreadReply {
  return { hasGrown: getHeapStatistics().total_heap_size > GROWN_BYTES };
}
