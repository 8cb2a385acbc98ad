/**
 * The flags for Node with which a service's process is started. They have to be there when it starts: V8 does not look at
 * them again.
 *
 * `--no-memory-reducer` keeps an idle process as quick as it was. By itself V8 collects garbage some seconds after the last
 * work in a way that also drops hidden classes of which there is no object at that moment, those of requests and calls among
 * them; some 270 functions lose the machine code that was made for these, and the next thousands of requests cost up to 2.7
 * times as much. Garbage of big bodies is collected without it (`gateway/overload/garbage.ts`), and what other
 * requests leave in the heap, some 30 MB, stays until there are more.
 *
 * `--v8-pool-size=1` gives V8 one thread beside those of the program, in place of four. What it does there is mostly marking
 * in collections of garbage: four threads take all processors of a small machine for tens of milliseconds at once, whatever
 * the process shares the machine with, and long bodies make V8 collect several times a second. A larger machine is for more
 * workers of the gateway, of which each has its own.
 */
export const NODE_FLAGS: readonly string[] = ["--no-memory-reducer", "--v8-pool-size=1"];
