import type { SeededRandom } from "../../../support/seeded-random.ts";

/** An expression of a grammar, parsed from its text. */
type Node =
  | { readonly kind: "chars"; readonly isNot: boolean; readonly ranges: readonly (readonly [number, number])[] }
  | { readonly kind: "sequence" | "choice"; readonly nodes: readonly Node[] }
  | { readonly kind: "repeat"; readonly node: Node; readonly min: number; readonly max: number }
  | { readonly kind: "rule"; readonly name: string };

/** Parses a GBNF grammar independently of the code that writes it. */
function readGrammar(grammar: string): ReadonlyMap<string, Node> {
  const lines = grammar.trimEnd().split("\n");
  return new Map(
    lines.map((line) => {
      const at = line.indexOf(" ::= ");
      return [line.slice(0, at), new Reader(line.slice(at + 5)).all()] as const;
    }),
  );
}

/** Returns a function that checks whether a whole text matches a GBNF grammar. */
export function matcherOf(grammar: string, root = "root"): (text: string) => boolean {
  const rules = readGrammar(grammar);
  return (text) => {
    const codes = [...text].map((char) => char.codePointAt(0) ?? 0);
    return ends({ kind: "rule", name: root }, 0, codes, rules).includes(codes.length);
  };
}

/** Returns a function that writes random texts of a grammar, which end soon behind `length` characters. */
export function writerOf(grammar: string, root = "root"): (random: SeededRandom, length: number) => string {
  const rules = readGrammar(grammar);
  const heights = heightsOf(rules);
  return (random, length) => {
    let text = "";
    const write = (node: Node): void => {
      switch (node.kind) {
        case "chars":
          text += charIn(node, random);
          return;
        case "sequence":
          for (const each of node.nodes) write(each);
          return;
        case "choice": {
          const lowest = Math.min(...node.nodes.map((each) => heightOf(each, heights)));
          const open = node.nodes.filter((each) => heightOf(each, heights) < Number.POSITIVE_INFINITY);
          const left = text.length < length ? open : open.filter((each) => heightOf(each, heights) === lowest);
          const picked = left[random.below(left.length)];
          if (picked !== undefined) write(picked);
          return;
        }
        case "repeat": {
          const more = text.length < length ? random.below(Math.min(4, node.max - node.min + 1)) : 0;
          for (let count = 0; count < node.min + more; count += 1) write(node.node);
          return;
        }
        case "rule":
          write(rules.get(node.name) ?? { kind: "choice", nodes: [] });
      }
    };
    write({ kind: "rule", name: root });
    return text;
  };
}

/** Returns the least depth of rules below each rule. */
function heightsOf(rules: ReadonlyMap<string, Node>): ReadonlyMap<string, number> {
  const heights = new Map<string, number>();
  for (let changed = true; changed; ) {
    changed = false;
    for (const [name, body] of rules) {
      const height = heightOf(body, heights);
      if (height < (heights.get(name) ?? Number.POSITIVE_INFINITY)) changed = heights.set(name, height) !== undefined;
    }
  }
  return heights;
}

function heightOf(node: Node, heights: ReadonlyMap<string, number>): number {
  switch (node.kind) {
    case "chars":
      return 0;
    case "sequence":
      return Math.max(0, ...node.nodes.map((each) => heightOf(each, heights)));
    case "choice":
      return Math.min(...node.nodes.map((each) => heightOf(each, heights)));
    case "repeat":
      return node.min === 0 ? 0 : heightOf(node.node, heights);
    case "rule":
      return 1 + (heights.get(node.name) ?? Number.POSITIVE_INFINITY);
  }
}

function charIn({ isNot, ranges }: Extract<Node, { kind: "chars" }>, random: SeededRandom): string {
  if (isNot) throw new Error("a set of excluded characters");
  const [low, high] = ranges[random.below(ranges.length)] ?? [0, 0];
  return String.fromCodePoint(low + random.below(Math.min(high - low, 200) + 1));
}

/** Returns all positions where a match that starts at `at` may end, each once. */
function ends(node: Node, at: number, codes: readonly number[], rules: ReadonlyMap<string, Node>): readonly number[] {
  switch (node.kind) {
    case "chars": {
      const code = codes[at];
      if (code === undefined) return [];
      return node.ranges.some(([low, high]) => low <= code && code <= high) !== node.isNot ? [at + 1] : [];
    }
    case "choice":
      return once(node.nodes.map((each) => ends(each, at, codes, rules)));
    case "sequence": {
      let now: readonly number[] = [at];
      for (const each of node.nodes) {
        now = endsBehind(each, now, codes, rules);
        if (now.length === 0) break;
      }
      return now;
    }
    case "repeat": {
      const found = new Set<number>(node.min === 0 ? [at] : []);
      let now: readonly number[] = [at];
      for (let count = 1; count <= node.max && now.length > 0; count += 1) {
        const next = endsBehind(node.node, now, codes, rules);
        now = count > node.min ? next.filter((place) => !found.has(place)) : next;
        if (count >= node.min) for (const place of now) found.add(place);
      }
      return [...found];
    }
    case "rule": {
      const body = rules.get(node.name);
      if (body === undefined) throw new Error(`no rule ${node.name}`);
      return ends(body, at, codes, rules);
    }
  }
}

function endsBehind(
  node: Node,
  places: readonly number[],
  codes: readonly number[],
  rules: ReadonlyMap<string, Node>,
): readonly number[] {
  return once(places.map((place) => ends(node, place, codes, rules)));
}

/** Joins lists, of which mostly at most one has entries: a set for each of them would take most of the time. */
function once(lists: readonly (readonly number[])[]): readonly number[] {
  const filled = lists.filter((list) => list.length > 0);
  return filled.length > 1 ? [...new Set(filled.flat())] : (filled[0] ?? []);
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  all(): Node {
    const node = this.#choice();
    if (this.#at < this.#text.length) throw new Error(`unexpected text at ${this.#at}`);
    return node;
  }

  #choice(): Node {
    const nodes = [this.#sequence()];
    while (this.#take("|")) nodes.push(this.#sequence());
    return { kind: "choice", nodes };
  }

  #sequence(): Node {
    const nodes: Node[] = [];
    for (this.#space(); this.#at < this.#text.length && !"|)".includes(this.#char()); this.#space()) {
      nodes.push(this.#counted(this.#atom()));
    }
    return { kind: "sequence", nodes };
  }

  #atom(): Node {
    if (this.#take("(")) {
      const node = this.#choice();
      if (!this.#take(")")) throw new Error("a group is left open");
      return node;
    }
    if (this.#take('"')) {
      const nodes: Node[] = [];
      while (!this.#take('"')) {
        const code = this.#code();
        nodes.push({ kind: "chars", isNot: false, ranges: [[code, code]] });
      }
      return { kind: "sequence", nodes };
    }
    if (this.#take("[")) {
      const isNot = this.#take("^");
      const ranges: (readonly [number, number])[] = [];
      while (!this.#take("]")) {
        const low = this.#code();
        ranges.push([low, this.#take("-") ? this.#code() : low]);
      }
      return { kind: "chars", isNot, ranges };
    }
    const name = /^[A-Za-z0-9-]+/.exec(this.#text.slice(this.#at))?.[0];
    if (name === undefined) throw new Error(`unexpected text at ${this.#at}`);
    this.#at += name.length;
    return { kind: "rule", name };
  }

  #counted(node: Node): Node {
    const text = /^(?:[*+?]|\{(\d+)(,(\d*))?\})/.exec(this.#text.slice(this.#at));
    if (text === null) return node;
    if (node.kind === "sequence" && node.nodes.length === 0) throw new Error("nothing to repeat");
    this.#at += text[0].length;
    const [sign, min, comma, max] = text;
    if (sign === "*") return { kind: "repeat", node, min: 0, max: Number.POSITIVE_INFINITY };
    if (sign === "+") return { kind: "repeat", node, min: 1, max: Number.POSITIVE_INFINITY };
    if (sign === "?") return { kind: "repeat", node, min: 0, max: 1 };
    const most = comma === undefined ? Number(min) : max === "" ? Number.POSITIVE_INFINITY : Number(max);
    return { kind: "repeat", node, min: Number(min), max: most };
  }

  #code(): number {
    const char = this.#char();
    this.#at += char.length;
    if (char !== "\\") return char.codePointAt(0) ?? 0;
    const letter = this.#char();
    this.#at += 1;
    const length = { x: 2, u: 4, U: 8 }[letter];
    if (length === undefined) return { n: 10, r: 13, t: 9 }[letter] ?? letter.charCodeAt(0);
    this.#at += length;
    return Number.parseInt(this.#text.slice(this.#at - length, this.#at), 16);
  }

  #char(): string {
    const code = this.#text.codePointAt(this.#at);
    if (code === undefined) throw new Error("unexpected end");
    return String.fromCodePoint(code);
  }

  #take(char: string): boolean {
    if (this.#text[this.#at] !== char) return false;
    this.#at += 1;
    return true;
  }

  #space(): void {
    while (this.#text[this.#at] === " ") this.#at += 1;
  }
}
