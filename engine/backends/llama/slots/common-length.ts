export function commonLength<Element>(one: readonly Element[], other: readonly Element[]): number {
  const most = Math.min(one.length, other.length);
  let count = 0;
  while (count < most && one[count] === other[count]) count += 1;
  return count;
}
