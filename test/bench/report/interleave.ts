/**
 * Measures every target once per repetition, in turn, so that temporary load of the machine affects all of them. One
 * round before the first is not counted; `measure` receives that and may do less. Resolves to the measurements of every
 * repetition, by target.
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
