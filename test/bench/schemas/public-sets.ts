import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { SchemaCase } from "./judge.ts";

export type SpelledJson = {
  readonly value: unknown;
  readonly text: string;
  /** The members of an object by name; undefined for other values. */
  readonly members?: ReadonlyMap<string, SpelledJson>;
  /** The items of a list; undefined for other values. */
  readonly items?: readonly SpelledJson[];
};

const WHITE_SPACE = " \t\n\r";

/**
 * Parses JSON and keeps the spelling of numbers: for a grammar `1.0` is no integer, but JavaScript converts it to one.
 * Throws `SyntaxError`.
 */
export function readSpelledJson(source: string): SpelledJson {
  const reader = new Reader(source);
  const found = reader.value();
  reader.end();
  return found;
}

class Reader {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  value(): SpelledJson {
    this.#space();
    const char = this.#source[this.#at];
    if (char === "{") return this.#object();
    if (char === "[") return this.#list();
    return char === '"' ? this.#string() : this.#literal();
  }

  end(): void {
    this.#space();
    if (this.#at < this.#source.length) throw new SyntaxError(`unexpected text at ${this.#at}`);
  }

  #object(): SpelledJson {
    const members = new Map<string, SpelledJson>();
    this.#at += 1;
    while (!this.#closes("}", members.size > 0)) {
      this.#space();
      const { value: key } = this.#string();
      this.#space();
      if (this.#source[this.#at] !== ":") throw new SyntaxError(`no colon at ${this.#at}`);
      this.#at += 1;
      members.set(String(key), this.value());
    }
    const texts = [...members].map(([key, member]) => `${JSON.stringify(key)}: ${member.text}`);
    const value = Object.fromEntries([...members].map(([key, member]) => [key, member.value]));
    return { value, text: `{${texts.join(", ")}}`, members };
  }

  #list(): SpelledJson {
    const items: SpelledJson[] = [];
    this.#at += 1;
    while (!this.#closes("]", items.length > 0)) items.push(this.value());
    return { value: items.map(({ value }) => value), text: `[${items.map(({ text }) => text).join(", ")}]`, items };
  }

  #closes(end: string, hasParts: boolean): boolean {
    this.#space();
    if (this.#source[this.#at] === end) {
      this.#at += 1;
      return true;
    }
    if (hasParts) {
      if (this.#source[this.#at] !== ",") throw new SyntaxError(`no comma at ${this.#at}`);
      this.#at += 1;
    }
    return false;
  }

  #string(): SpelledJson {
    let end = this.#at + 1;
    while (end < this.#source.length && this.#source[end] !== '"') end += this.#source[end] === "\\" ? 2 : 1;
    const value: unknown = JSON.parse(this.#source.slice(this.#at, end + 1));
    this.#at = end + 1;
    return { value, text: JSON.stringify(value) };
  }

  #literal(): SpelledJson {
    let end = this.#at;
    while (end < this.#source.length && !`${WHITE_SPACE},]}`.includes(this.#source[end] ?? "")) end += 1;
    const text = this.#source.slice(this.#at, end);
    this.#at = end;
    return { value: JSON.parse(text), text };
  }

  #space(): void {
    while (this.#at < this.#source.length && WHITE_SPACE.includes(this.#source[this.#at] ?? "x")) this.#at += 1;
  }
}

export type PublicSet = { readonly name: string; readonly cases: Iterable<SchemaCase> };

const DRAFTS = ["draft2020-12", "draft7"];

/**
 * Finds the public collections in a folder, which is or contains checkouts: the data of MaskBench (jsonschemabench) and
 * the JSON-Schema-Test-Suite.
 */
export function publicSets(folder: string): readonly PublicSet[] {
  const folders = [folder, ...readdirSync(folder).map((name) => join(folder, name))];
  return folders.flatMap((each) => {
    const sets: PublicSet[] = [];
    const data = join(each, "maskbench/data");
    if (existsSync(data)) sets.push({ name: "MaskBench", cases: maskBench(data) });
    const suite = join(each, "tests", DRAFTS[0] ?? "");
    if (existsSync(suite)) sets.push({ name: "JSON-Schema-Test-Suite", cases: testSuite(join(each, "tests")) });
    return sets;
  });
}

function* maskBench(folder: string): Iterable<SchemaCase> {
  for (const name of jsonFiles(folder)) {
    const { members } = readSpelledJson(readFileSync(join(folder, name), "utf8"));
    yield { name, ...caseOf(members) };
  }
}

function* testSuite(folder: string): Iterable<SchemaCase> {
  for (const draft of DRAFTS) {
    for (const part of ["", "optional/format"]) {
      const inside = join(folder, draft, part);
      for (const name of existsSync(inside) ? jsonFiles(inside) : []) {
        const groups = readSpelledJson(readFileSync(join(inside, name), "utf8")).items ?? [];
        for (const [at, group] of groups.entries())
          yield { name: `${join(draft, part, name)}[${at}]`, ...caseOf(group.members) };
      }
    }
  }
}

function caseOf(members: ReadonlyMap<string, SpelledJson> | undefined): Omit<SchemaCase, "name"> {
  const tests = members?.get("tests")?.items ?? [];
  return {
    schema: members?.get("schema")?.text ?? "",
    tests: tests.map(({ members: test }) => ({
      text: test?.get("data")?.text ?? "",
      isValid: test?.get("valid")?.value === true,
    })),
  };
}

function jsonFiles(folder: string): readonly string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .sort();
}
