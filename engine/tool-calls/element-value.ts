import { type ArgumentPath, ITEM, type JsonType } from "./argument-types.ts";
import { jsonOf } from "./argument-writer.ts";
import { heldSuffixLength, MAX_NAME } from "./call-reader.ts";

const MAX_DEPTH = 64;

const ITEM_NAME = "item";

type Types = ReadonlySet<JsonType> | undefined;

type Element = {
  readonly name: string;
  readonly path: ArgumentPath;
  readonly types: Types;
  readonly entries: (readonly [name: string, json: string])[];
  text: string;
};

type ElementProgress = {
  /** The consumed UTF-16 units; the rest must be passed again with more text. */
  readonly consumed: number;
  /** The value as JSON text when it is complete; `malformed` if it is invalid, undefined before. */
  readonly value: string | "malformed" | undefined;
};

/**
 * Reads nested elements after an opening tag: `mark<a>1mark</a>` and so on up to `mark</NAME>`, or nothing. If the
 * schema requires a list, each element is an entry; without schema, elements named `item` make one. Repeated names in
 * an object form a list, so that the value is held until its end.
 */
export class ElementValue {
  readonly #tag: string;
  readonly #typesOf: (path: ArgumentPath) => Types;
  readonly #open: Element[];

  constructor(tag: string, name: string, typesOf: (path: ArgumentPath) => Types) {
    this.#tag = tag;
    this.#typesOf = typesOf;
    this.#open = [this.#element(name, [name])];
  }

  push(text: string): ElementProgress {
    for (let at = 0; ; ) {
      const element = this.#open.at(-1);
      if (element === undefined) return { consumed: at, value: "malformed" };
      const tag = text.indexOf(this.#tag, at);
      if (tag < 0) {
        const end = text.length - heldSuffixLength(text.slice(at), [this.#tag]);
        element.text += text.slice(at, end);
        return { consumed: end, value: undefined };
      }
      element.text += text.slice(at, tag);
      const nameAt = tag + this.#tag.length;
      const end = text.indexOf(">", nameAt);
      if (end < 0 && text.length - nameAt <= MAX_NAME) return { consumed: tag, value: undefined };
      const name = end < 0 ? "" : text.slice(nameAt, end);
      if (name === `/${element.name}`) {
        const json = jsonOfElement(element);
        this.#open.pop();
        const outer = this.#open.at(-1);
        if (outer === undefined) return { consumed: end + 1, value: json };
        outer.entries.push([element.name, json]);
        at = end + 1;
      } else if (element.types?.size === 1 && element.types.has("string")) {
        element.text += this.#tag;
        at = nameAt;
      } else if (!this.#begin(name, element)) {
        return { consumed: tag, value: "malformed" };
      } else at = end + 1;
    }
  }

  #begin(name: string, outer: Element): boolean {
    const cannot = name === "" || name.startsWith("/") || name.length > MAX_NAME || outer.text.trim() !== "";
    if (cannot || this.#open.length >= MAX_DEPTH) return false;
    const isItem = isList(outer.types, [name]);
    this.#open.push(this.#element(name, [...outer.path, isItem ? ITEM : name]));
    return true;
  }

  #element(name: string, path: ArgumentPath): Element {
    return { name, path, types: this.#typesOf(path), entries: [], text: "" };
  }
}

function isList(types: Types, names: readonly string[]): boolean {
  const [list, object] = [types?.has("array") ?? false, types?.has("object") ?? false];
  return list === object ? names.every((name) => name === ITEM_NAME) : list;
}

function jsonOfElement({ types, entries, text }: Element): string {
  if (entries.length === 0) {
    if (text.trim() !== "" || types?.size !== 1) return jsonOf(text, types);
    return types.has("array") ? "[]" : types.has("object") ? "{}" : jsonOf(text, types);
  }
  const names = entries.map(([name]) => name);
  if (isList(types, names)) return `[${entries.map(([, json]) => json).join(", ")}]`;
  const members = new Map<string, string[]>();
  for (const [name, json] of entries) {
    const values = members.get(name);
    if (values === undefined) members.set(name, [json]);
    else values.push(json);
  }
  const written = [...members].map(([name, values]) => {
    const [first = "null"] = values;
    return `${JSON.stringify(name)}: ${values.length > 1 ? `[${values.join(", ")}]` : first}`;
  });
  return `{${written.join(", ")}}`;
}
