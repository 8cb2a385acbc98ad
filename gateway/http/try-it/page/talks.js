/* What this tab keeps until it is closed: the conversations, and the key apart from them. Nothing where that is off. */

function write(name, text) {
  try {
    if (text === undefined) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, text);
    return true;
  } catch {
    return false;
  }
}

/** Returns what the tab keeps under `name`; undefined if nothing, or if the browser keeps nothing. */
export function kept(name) {
  try {
    return sessionStorage.getItem(name) ?? undefined;
  } catch {
    return undefined;
  }
}

export const keeps = () => kept("keep") !== "off";

/** Keeps a text under `name` if the tab keeps things. Returns whether it could. */
export const keep = (name, text) => !keeps() || write(name, text);

/** Sets whether the tab keeps things; off removes what it had. */
export function setKeeping(on) {
  write("keep", on ? undefined : "off");
  if (!on) for (const name of ["talks", "api-key"]) write(name, undefined);
}

/** Returns the kept conversations, `{ turns }` each. */
export function keptTalks() {
  try {
    return JSON.parse(kept("talks") ?? "[]");
  } catch {
    return [];
  }
}

/** Has the browser save a value as a JSON file. */
export function download(name, value) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(value, undefined, 2)], { type: "application/json" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
