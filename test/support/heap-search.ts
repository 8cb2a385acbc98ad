import { once } from "node:events";
import { getHeapSnapshot, setFlagsFromString } from "node:v8";

/** The UTF-16 units of a string that a snapshot shows: 1,024 without this. */
const STRING_UNITS = 1 << 20;

/**
 * Searches the heap of this process, after a collection of garbage, for texts that are in it as they stand in a snapshot.
 * They are bytes here: as strings they would be found in the test itself. Resolves to whether each is found.
 */
export async function inHeap(...words: readonly Buffer[]): Promise<boolean[]> {
  setFlagsFromString(`--heap-snapshot-string-limit=${STRING_UNITS}`);
  const longest = Math.max(...words.map(({ length }) => length));
  let tail = Buffer.alloc(0);
  const found = words.map(() => false);
  // Piece by piece: a reader that iterates gets all of it at once, which is more than a string can hold.
  const snapshot = getHeapSnapshot().on("data", (piece: Buffer | string) => {
    const text = Buffer.concat([tail, Buffer.from(piece)]);
    for (const [at, word] of words.entries()) found[at] ||= text.includes(word);
    tail = text.subarray(-longest);
  });
  await once(snapshot, "end");
  return found;
}
