/**
 * Returns a function whose numbers are even over [0, 1), with the same sequence for the same seed: a Weyl sequence
 * through two rounds of mixing. It is not for secrets.
 */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x45d9f3b5);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
  };
}

/** Draws an exponentially distributed number with this mean. */
export function exponential(mean: number, random: () => number): number {
  return -mean * Math.log(1 - random());
}
