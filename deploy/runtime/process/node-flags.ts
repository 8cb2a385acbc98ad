/**
 * The flags for Node with which a service's process is started. They have to be there when it starts: V8 does not look at
 * them again.
 *
 * `--no-memory-reducer` keeps an idle process as quick as it was. By itself V8 collects garbage some seconds after the last
 * work in a way that also drops hidden classes of which there is no object at that moment, those of requests and calls among
 * them; some 270 functions lose the machine code that was made for these, and the next thousands of requests cost up to 2.7
 * times as much. Garbage of big bodies is collected without it (`gateway/overload/garbage.ts`), and what other
 * requests leave in the heap, some 30 MB, stays until there are more.
 */
export const NODE_FLAGS: readonly string[] = ["--no-memory-reducer"];
