import { type KeyedEntry, RESTORE } from "../audit-log.ts";
import { isKeyId } from "../key-format.ts";
import { type KeyState, parseState, stateText } from "../newest-state.ts";

/** What the audit log says about the stored keys, from the line that began their history up to one line. */
export type History = KeyState & {
  /** Revision of the newest restore, which records have that no later line names; 0 without one. */
  readonly restored: number;
  /** Index of the line of the checkpoint from which the history was read, or of the line before the first one. */
  readonly checkpoint: number;
  /** Revision of the newest line of each key. */
  readonly revisions: Map<string, number>;
};

/** Revisions of keys that new lines name; undefined for a removed key. */
export type Changed = Map<string, number | undefined>;

/** Returns the empty history before the line with this index. `mac` is that of the line before, or empty. */
export function emptyHistory(base: number, mac = ""): History {
  return { revision: 0, mac, restored: 0, index: base - 1, checkpoint: base - 1, revisions: new Map() };
}

/** Returns the history with one more line. Changes of its keys are added to `changed`, and applied by `applied`. */
export function withLine(history: History, { action, keyId, revision, mac }: KeyedEntry, changed: Changed): History {
  const next = { ...history, revision, mac, index: history.index + 1 };
  if (action === RESTORE.action) {
    changed.clear();
    return { ...next, restored: revision, revisions: new Map() };
  }
  if (isKeyId(keyId)) changed.set(keyId, action === "remove" ? undefined : revision);
  return next;
}

export function applied(history: History, changed: Changed): History {
  for (const [id, revision] of changed) {
    if (revision === undefined) history.revisions.delete(id);
    else history.revisions.set(id, revision);
  }
  return history;
}

/** Returns the revision that the record of a key must have; 0 if there must be none. */
export function revisionOf({ revisions, restored }: History, id: string): number {
  return revisions.get(id) ?? restored;
}

/** Writes a history as the text of a checkpoint: its state, then a line for each key. */
export function checkpointText(history: History): string {
  const keys = Array.from(history.revisions, ([id, revision]) => `\n${id} ${revision}`);
  return `${history.restored} ${stateText(history)}${keys.join("")}`;
}

/** Reads a genuine checkpoint. Undefined for the form of another release. */
export function readCheckpoint(text: string): History | undefined {
  const [, restored, rest = ""] = /^(\d{1,15}) (.*)/.exec(text) ?? [];
  const state = parseState(rest);
  if (!state) return undefined;
  const revisions = new Map<string, number>();
  // Splitting the text of 100,000 keys would take twice as long.
  for (let at = text.indexOf("\n"); at >= 0; ) {
    const next = text.indexOf("\n", at + 1);
    const space = text.indexOf(" ", at);
    revisions.set(text.slice(at + 1, space), Number(text.slice(space + 1, next < 0 ? text.length : next)));
    at = next;
  }
  return { ...state, restored: Number(restored), checkpoint: state.index, revisions };
}
