import { readlinkSync } from "node:fs";
import { readlink } from "node:fs/promises";
import { constants, getPriority, setPriority } from "node:os";

/**
 * How far a thread stands back behind those of its process that serve everybody, in steps of `nice`. Beside one of them
 * on the same core it gets a thirtieth of the time: enough for what has seconds to be done in, and several such threads
 * still leave most of the core to the one that serves.
 */
const NICENESS = 15;

/**
 * Makes the calling thread stand back behind the others of its process where processors are short. Linux has a priority
 * for each thread, and names the one that asks; elsewhere the thread stays as it is, and what it does is right, too.
 */
export function standBack(): void {
  try {
    setPriority(threadOf(readlinkSync("/proc/thread-self")), behindUs(NICENESS));
  } catch {
    // No Linux, or no right to.
  }
}

/**
 * How far the threads of the pool stand back, in steps of `nice`: beside the thread that serves everybody one of them gets a
 * quarter of the time of a core that they share.
 */
const POOL_NICENESS = 5;
/** The threads of Node's pool where the environment says nothing else. */
const POOL_THREADS = 4;
/** The questions that are asked at once, and how often, until all threads of the pool have said who they are. */
const ASKED_AT_ONCE = 64;
const TIMES = 32;

/**
 * Makes the threads of Node's pool stand back behind the one that serves everybody, and with them what they start. For
 * programs whose pool computes for long, as that of llama.cpp does: the loop is to be awake as soon as something comes,
 * whatever is computed. Where threads have no priorities of their own, or do not say who they are, they stay as they are.
 * Resolves to the ids of the threads; to none where they do not say.
 */
export async function standBackPool(): Promise<readonly number[]> {
  const threads = new Set<number>();
  try {
    const size = poolThreads(process.env.UV_THREADPOOL_SIZE);
    // Whichever thread is free answers: each of them tells its own id alone.
    for (let time = 0; time < TIMES && threads.size < size; time += 1) {
      const told = Array.from({ length: ASKED_AT_ONCE }, () => readlink("/proc/thread-self"));
      for (const link of await Promise.all(told)) threads.add(threadOf(link));
    }
    for (const thread of threads) setPriority(thread, behindUs(POOL_NICENESS));
  } catch {
    // No Linux, or no right to.
  }
  return [...threads];
}

/** Returns the number of threads that libuv gives the pool: what is no number or 0 in the environment makes it one. */
function poolThreads(said: string | undefined): number {
  return said === undefined ? POOL_THREADS : Number.parseInt(said, 10) || 1;
}

/** Returns the id of the thread that has read its link. Throws where `/proc` counts processes otherwise than we do. */
function threadOf(link: string): number {
  const [pid, , thread] = link.split("/").map(Number);
  if (pid !== process.pid || thread === undefined) throw new Error("/proc is that of other processes");
  return thread;
}

/** Returns the priority that is so many steps of `nice` behind that of the process, as far as there is one. */
function behindUs(steps: number): number {
  return Math.min(constants.priority.PRIORITY_LOW, getPriority() + steps);
}
