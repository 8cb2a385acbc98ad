import { isDeepStrictEqual } from "node:util";
import { KeyAdminError } from "../key-admin.ts";
import type { Pepper } from "../key-digest.ts";
import type { KeySetChange } from "../key-file.ts";
import type { KeySet } from "../key-record.ts";

/** How many keys came, and how many were there already. */
export type Imported = { readonly added: number; readonly present: number };

/**
 * Takes over keys of another store, as `export` wrote them. Throws KeyAdminError `conflict` where a key was made with
 * another pepper than `pepper`, or is here already and differs; nothing is taken over then.
 */
export function importKeys(set: KeySet, from: KeySet, pepper: Pepper): KeySetChange<Imported> {
  const known = new Map(set.keys.map((record) => [record.id, record]));
  const added = from.keys.filter((record) => {
    if (record.secrets.some(({ pepperId }) => pepperId !== pepper.id))
      throw new KeyAdminError("conflict", `the key ${record.id} was made with another pepper`);
    const here = known.get(record.id);
    if (here !== undefined && !isDeepStrictEqual(here, record))
      throw new KeyAdminError("conflict", `the key ${record.id} is here already, and differs`);
    return here === undefined;
  });
  const value = { added: added.length, present: from.keys.length - added.length };
  return { set: added.length === 0 ? set : { ...set, keys: [...set.keys, ...added] }, value };
}
