import { getHeapStatistics } from "node:v8";

/** Heap size, in bytes, from which a thread is replaced: a new one has 15 MiB, long conversations leave 40 to 80. */
const GROWN_BYTES = 56 * 1024 * 1024;

export type ThreadReply = {
  /** Whether the thread's heap has grown so much that the thread should be replaced. Default: false. */
  readonly hasGrown?: boolean;
};

export function ofThisThread(): ThreadReply {
  return { hasGrown: getHeapStatistics().total_heap_size > GROWN_BYTES };
}
