/*
 * Keys of earlier releases that a program has no more. An unknown key of these is refused with what to do about it.
 */

/**
 * What became of a key: `to` is the path of the key that replaces it, `now` the value that is always used, and
 * `removed` says why there is nothing to set.
 */
export type Fate = { readonly to: string } | { readonly now: string } | { readonly removed: string };

/** Fates by path, as the page of the configuration writes it (`clusters[].slowStart`); that of a section holds for its keys. */
export type GoneKeys = Readonly<Record<string, Fate>>;

type Path = readonly PropertyKey[];

/** Returns what became of each key at and below `path` that is gone; none for a key that never was. */
export function fatesBelow(
  gone: GoneKeys,
  path: Path,
  value: unknown,
): readonly { readonly path: Path; readonly text: string }[] {
  const fate = gone[nameOf(path)];
  if (fate) return [{ path, text: textOf(fate) }];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, below]) =>
    fatesBelow(gone, [...path, Array.isArray(value) ? Number(key) : key], below),
  );
}

function nameOf(path: Path): string {
  return path.map((step, at) => (typeof step === "number" ? "[]" : `${at > 0 ? "." : ""}${String(step)}`)).join("");
}

function textOf(fate: Fate): string {
  if ("to" in fate) return `this key is ${fate.to} now`;
  return "now" in fate ? `removed, now constant ${fate.now}` : `removed: ${fate.removed}`;
}
