import { getHeapSpaceStatistics, getHeapStatistics } from "node:v8";
import { Worker } from "node:worker_threads";

const MIB = 1024 * 1024;

/** Most bytes that V8 reserves for the young generation in any Node version that the gateway runs on. */
const MOST_YOUNG_BYTES = 192 * MIB;
/** Most of the whole heap that the young generation takes: V8 reduces it in tiny heaps. */
const MOST_YOUNG_SHARE = 2 / 3;
/** V8 reserves three semi-spaces for the young generation. */
const SEMI_SPACES = 3;
const SEMI_SPACE_FLAG = /--max[-_]semi[-_]space[-_]size[= ](\d+)/g;
const YOUNG_SPACES = ["new_space", "new_large_object_space"];

let youngBytes: number | undefined;

/**
 * Determines the size of the young generation in this process's heap, so that `heapUse` is exact: 48, 96 or 192 MiB by
 * version, or the value of `--max-semi-space-size`. V8 reports it for threads only, so that one is started. Until it is
 * known, `heapUse` assumes the largest size of any version.
 */
export async function measureYoungGeneration(): Promise<void> {
  const flags = `${process.env.NODE_OPTIONS ?? ""} ${process.execArgv.join(" ")}`;
  const semiSpaceMib = [...flags.matchAll(SEMI_SPACE_FLAG)].at(-1)?.[1];
  // V8 rounds it up to a power of two.
  if (semiSpaceMib) youngBytes = SEMI_SPACES * 2 ** Math.ceil(Math.log2(Number(semiSpaceMib))) * MIB;
  else youngBytes ??= await youngBytesOfThread();
}

async function youngBytesOfThread(): Promise<number> {
  const thread = new Worker("", { eval: true });
  const youngMib = await new Promise<number | undefined>((resolve) => {
    thread.once("online", () => resolve(thread.resourceLimits?.maxYoungGenerationSizeMb));
    thread.once("error", () => resolve(undefined));
  });
  return youngMib === undefined ? MOST_YOUNG_BYTES : youngMib * MIB;
}

/**
 * Returns the size and the limit of the old generation, in bytes. V8's limit includes the young generation, but the
 * process dies when the old one is full. V8 collects when half of the free heap is used, so a nearly full heap is not
 * full of garbage.
 */
export function heapUse(): { readonly usedBytes: number; readonly limitBytes: number } {
  const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics();
  let young = 0;
  for (const { space_name: name, space_used_size: size } of getHeapSpaceStatistics())
    if (YOUNG_SPACES.includes(name)) young += size;
  return {
    usedBytes: used - young,
    limitBytes: limit - Math.min(youngBytes ?? MOST_YOUNG_BYTES, limit * MOST_YOUNG_SHARE),
  };
}
