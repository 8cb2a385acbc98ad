/**
 * Returns the length, in UTF-16 units, of the longest end of `text` with which one of `wanted` could begin without
 * being whole yet.
 */
export function heldSuffixLength(text: string, wanted: readonly string[]): number {
  let longest = 0;
  for (const candidate of wanted) {
    const first = candidate.charCodeAt(0);
    for (let length = Math.min(candidate.length - 1, text.length); length > longest; length -= 1) {
      // Most places are no beginning, which shows without a copy.
      if (text.charCodeAt(text.length - length) !== first) continue;
      if (candidate.startsWith(text.slice(text.length - length))) longest = length;
    }
  }
  return longest;
}
