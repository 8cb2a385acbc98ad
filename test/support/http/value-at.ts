/** Returns the value at a path of keys and indices in parsed JSON; undefined if there is none. */
export function valueAt(json: unknown, ...path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>(
    (value, step) => (typeof value === "object" && value !== null ? Reflect.get(value, step) : undefined),
    json,
  );
}
