/* Writes to a page: everything as text. */

export const byId = (id) => document.getElementById(id);

/** Appends a new element to `parent`. */
export function make(name, parent, text, cls) {
  const node = document.createElement(name);
  if (text) node.textContent = text;
  if (cls) node.className = cls;
  parent.append(node);
  return node;
}

/** Appends a button. */
export function press(parent, text, does, cls) {
  const button = make("button", parent, text, cls);
  button.type = "button";
  button.addEventListener("click", does);
  return button;
}
