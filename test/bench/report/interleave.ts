/**
 * Measures every target once per repetition, in turn: what disturbs the machine for a while disturbs all of them. One
 * round before the first is not counted, and `measure` is told so: it may do less then. Resolves to the measurements of
 * every repetition, by name of target.
 */
export async function interleave<T extends { readonly name: string }, M>(
  targets: readonly T[],
  repetitions: number,
  measure: (target: T, counted: boolean) => Promise<M>,
): Promise<ReadonlyMap<string, M>[]> {
  const rounds: ReadonlyMap<string, M>[] = [];
  for (let round = 0; round <= repetitions; round += 1) {
    const measured = new Map<string, M>();
    for (const target of targets) measured.set(target.name, await measure(target, round > 0));
    if (round > 0) rounds.push(measured);
  }
  return rounds;
}
