import { type ArgumentPath, ITEM, type JsonType } from "./argument-types.ts";
import { jsonOf } from "./argument-writer.ts";
import { MAX_NAME } from "./call-reader.ts";
import { heldSuffixLength } from "./held-suffix.ts";

/** The most elements inside each other; a model that writes more of them writes no arguments. */
const MAX_DEPTH = 64;

/** The name that templates give the elements of a list. */
const ITEM_NAME = "item";

type Types = ReadonlySet<JsonType> | undefined;

/** An element that is not closed yet. */
type Element = {
  readonly name: string;
  readonly path: ArgumentPath;
  readonly types: Types;
  /** The elements inside it, as names and JSON text. */
  readonly entries: (readonly [name: string, json: string])[];
  text: string;
};

/** The result of reading one piece of text. */
export type ElementProgress = {
  /** The number of UTF-16 units that were taken; the rest is to be given again, with more behind it. */
  readonly consumed: number;
  /** The value as JSON text, once it is whole; `malformed` where it cannot come to be one, undefined before. */
  readonly value: string | "malformed" | undefined;
};

/**
 * Reads a value that is made of elements, which may be made of elements again, behind its opening tag:
 * `mark<a>1mark</a>` and so on up to `mark</NAME>`, or nothing. Where a schema wants a list each element is one of its
 * entries, whatever it is called; where it says nothing a list is made of elements called `item`. Elements of one name
 * in an object are a list: so the value is known at its end only, and is held as long.
 */
export class ElementValue {
  readonly #tag: string;
  readonly #typesOf: (path: ArgumentPath) => Types;
  readonly #open: Element[];

  /** Reads the value of the argument `name`. Every tag begins with `tag`; `typesOf` says what a schema allows. */
  constructor(tag: string, name: string, typesOf: (path: ArgumentPath) => Types) {
    this.#tag = tag;
    this.#typesOf = typesOf;
    this.#open = [this.#element(name, [name])];
  }

  /** Takes the next piece of the value. */
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
      } else if (isText(element.types)) {
        element.text += this.#tag;
        at = nameAt;
      } else if (!this.#begin(name, element)) {
        return { consumed: tag, value: "malformed" };
      } else at = end + 1;
    }
  }

  /** Opens an element inside another one; returns false where there can be none. */
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

/** Returns whether a value of these types, made of elements with these names, is a list. */
function isList(types: Types, names: readonly string[]): boolean {
  const [list, object] = [types?.has("array") ?? false, types?.has("object") ?? false];
  return list === object ? names.every((name) => name === ITEM_NAME) : list;
}

function isText(types: Types): boolean {
  return types?.size === 1 && types.has("string");
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
