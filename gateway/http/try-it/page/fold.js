/* Parts that open, and JSON in them: each part is filled when it is first opened. */
import { make } from "./dom.js";

/** The most characters of a value, such as an image, that are shown. */
const MOST_SHOWN = 4_000;

/** Appends a part with a name and a text that `fill` fills when it is opened. */
export function fold(parent, name, text, fill, isOpen = false) {
  const part = make("details", parent);
  const head = make("summary", part);
  if (name) make("code", head, name);
  head.append(` ${text}`);
  part.open = isOpen;
  if (isOpen) fill(part);
  else part.addEventListener("toggle", () => fill(part), { once: true });
}

/** Appends a JSON value, folded below its first `open` levels. */
export function showJson(parent, value, open = 1, name = "") {
  if (value === null || typeof value !== "object") {
    const line = make("div", parent, "", "json");
    if (name) make("code", line, name);
    line.append(" ");
    const text = JSON.stringify(value);
    make("code", line, text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text, typeof value);
    return;
  }
  const count = Object.keys(value).length;
  const fill = (part) => showFields(part, value, open - 1);
  fold(parent, name, Array.isArray(value) ? `[${count}]` : `{${count}}`, fill, open > 0);
}

/** Appends the fields of a JSON object or the items of a list, folded below their first `open` levels. */
export function showFields(parent, value, open = 1) {
  for (const [name, inner] of typeof value === "object" ? Object.entries(value) : [])
    showJson(parent, inner, open, name);
}
