/** The length of the longest suffix of `text` that is a proper prefix of one of `wanted`, in UTF-16 units. */
export function heldSuffixLength(text: string, wanted: readonly string[]): number {
  let longest = 0;
  for (const candidate of wanted) {
    const first = candidate.charCodeAt(0);
    for (let length = Math.min(candidate.length - 1, text.length); length > longest; length -= 1) {
      // Most positions are no prefix; the comparison of one unit avoids a copy.
      if (text.charCodeAt(text.length - length) !== first) continue;
      if (candidate.startsWith(text.slice(text.length - length))) longest = length;
    }
  }
  return longest;
}
