/** The form of a field mask: the names of the wanted fields, a path each, as in `a,b.c`. */
const MASK = /^\w+(\.\w+)*(,\w+(\.\w+)*)*$/;

/** Returns the paths of a field mask; undefined where `text` is none. */
export function parseFieldMask(text: string): readonly (readonly string[])[] | undefined {
  if (text.length > 500 || !MASK.test(text)) return undefined;
  return text.split(",").map((path) => path.split("."));
}

/**
 * Returns the parts of `value` that the paths name, each with all that is below it; of a list, the parts of each of its
 * items.
 */
export function maskFields(value: unknown, paths: readonly (readonly string[])[]): unknown {
  if (paths.some((path) => path.length === 0)) return value;
  if (Array.isArray(value)) return value.map((item) => maskFields(item, paths));
  if (typeof value !== "object" || value === null) return undefined;
  const wanted = Object.entries(value).flatMap(([name, inner]) => {
    const below = paths.filter(([first]) => first === name).map(([, ...rest]) => rest);
    return below.length === 0 ? [] : [[name, maskFields(inner, below)] as const];
  });
  return Object.fromEntries(wanted);
}
