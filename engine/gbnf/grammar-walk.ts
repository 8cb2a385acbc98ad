import type { WorkBudget } from "../work-budget.ts";
import {
  type CodeRange,
  choice,
  EMPTY,
  except,
  type FreeText,
  type Gbnf,
  literal,
  NEVER,
  repeat,
  rule,
  sequence,
} from "./gbnf.ts";
import type { GrammarRules } from "./grammar-rules.ts";

/** An expression to match, and those behind it: the stack of a pushdown automaton. Equal stacks are one object. */
type Stack = {
  readonly node: Gbnf;
  /** How much of the node is matched: code units of a literal, repetitions, or the matched part of a mark. */
  readonly done: number | string;
  readonly next: Stack | undefined;
  readonly id: number;
};

/**
 * Returns the grammar of the texts that may follow `text` in the language of `root`; undefined if none can. The rules
 * of the grammar are unchanged: each way to read the text is one alternative. Throws `WorkSpent`.
 *
 *     root ::= pair{1,3} "!"   pair ::= "ab" ("c" | "d")   behind "abca"   "b" ("c" | "d") pair? "!"
 */
export function grammarBehind(root: Gbnf, rules: GrammarRules, text: string): Gbnf | undefined {
  const walk = new GrammarWalk(rules.all, rules.budget);
  let stacks: ReadonlySet<Stack | undefined> = new Set([walk.stack(root, 0, undefined)]);
  for (const char of text) {
    stacks = walk.behind(stacks, char);
    if (stacks.size === 0) return undefined;
  }
  return choice(...[...stacks].map((stack) => restOf(stack, rules)));
}

/** Follows all readings of a text at once. Stacks share their ends, so that readings that meet again are one. */
class GrammarWalk {
  readonly #rules: ReadonlyMap<string, Gbnf>;
  readonly #budget: WorkBudget;
  readonly #stacks = new Map<Gbnf, Map<string, Stack>>();
  #count = 0;

  constructor(rules: ReadonlyMap<string, Gbnf>, budget: WorkBudget) {
    this.#rules = rules;
    this.#budget = budget;
  }

  /** Returns the stack with a node on top of others; the same object for equal ones. */
  stack(node: Gbnf, done: number | string, next: Stack | undefined): Stack {
    const ofNode = this.#stacks.get(node) ?? new Map<string, Stack>();
    this.#stacks.set(node, ofNode);
    const key = `${next?.id ?? 0} ${done}`;
    const known = ofNode.get(key);
    if (known) return known;
    this.#count += 1;
    const made = { node, done, next, id: this.#count };
    ofNode.set(key, made);
    return made;
  }

  /** Returns the stacks behind one character; an undefined one has matched everything. */
  behind(stacks: Iterable<Stack | undefined>, char: string): ReadonlySet<Stack | undefined> {
    const found = new Set<Stack | undefined>();
    const seen = new Set<Stack>();
    const open = [...stacks];
    for (let stack = open.pop(); stack !== undefined || open.length > 0; stack = open.pop()) {
      if (stack === undefined || seen.has(stack)) continue;
      seen.add(stack);
      this.#budget.pay(1);
      this.#step(stack, char, found, open);
    }
    return found;
  }

  /** Matches the character at the top of a stack, or replaces the top by its parts. */
  #step({ node, done, next }: Stack, char: string, found: Set<Stack | undefined>, open: (Stack | undefined)[]): void {
    switch (node.kind) {
      case "literal": {
        const from = Number(done);
        if (!node.text.startsWith(char, from)) return;
        const to = from + char.length;
        found.add(to === node.text.length ? next : this.stack(node, to, next));
        return;
      }
      case "chars":
      case "except": {
        const code = char.codePointAt(0) ?? 0;
        if (node.ranges.some(([low, high]) => low <= code && code <= high) === (node.kind === "chars")) found.add(next);
        return;
      }
      case "sequence":
        open.push(node.parts.reduceRight<Stack | undefined>((rest, part) => this.stack(part, 0, rest), next));
        return;
      case "choice":
        for (const option of node.options) open.push(this.stack(option, 0, next));
        return;
      case "repeat": {
        const times = Number(done);
        // More repetitions than the least one are alike where there is no greatest.
        const more = node.max === undefined ? Math.min(times + 1, node.min) : times + 1;
        if (times >= node.min) open.push(next);
        if (node.max === undefined || times < node.max)
          open.push(this.stack(node.part, 0, this.stack(node, more, next)));
        return;
      }
      case "rule":
        open.push(this.stack(this.#rules.get(node.name) ?? NEVER, 0, next));
        return;
      case "until": {
        const longer = `${done === 0 ? "" : done}${char}`;
        open.push(next);
        const behind = behindEnd(longer, node);
        found.add(behind ? this.stack(behind, 0, next) : this.stack(node, begunMark(longer, node), next));
      }
    }
  }
}

/** Returns the grammar behind the mark that a text ends with, which is NEVER for one that must not come. */
function behindEnd(text: string, { ends, without }: FreeText): Gbnf | undefined {
  if (without.some((other) => text.endsWith(other))) return NEVER;
  const found = ends.filter(({ mark }) => text.endsWith(mark));
  return found.sort((a, b) => b.mark.length - a.mark.length)[0]?.behind;
}

/** Returns the longest end of a text with which a mark, or a text that must not come, begins. */
function begunMark(text: string, free: FreeText): string {
  for (let from = 0; from < text.length; from += 1)
    if (charsBehind(text.slice(from), free).size > 0) return text.slice(from);
  return "";
}

/** Returns the characters with which a text goes on to be a part of a mark, or of a text that must not come. */
function charsBehind(begun: string, { ends, without }: FreeText): ReadonlySet<string> {
  const marks = [...ends.map(({ mark }) => mark), ...without].filter((mark) => mark.startsWith(begun));
  return new Set(marks.flatMap((mark) => String.fromCodePoint(mark.codePointAt(begun.length) ?? 0)));
}

/**
 * Returns the rest of a text whose end, `begun`, may become a mark. Behind any other end it is the same rule again, so
 * that an engine that caches grammars by their text has it compiled already.
 */
function restOfText(node: FreeText, begun: string, rules: GrammarRules): Gbnf {
  const [known] = [...rules.all].find(([, body]) => body === node) ?? [];
  const free = known === undefined ? rules.fresh(() => node) : rule(known);
  const rest: (text: string) => Gbnf = rules.keyed((text: string): Gbnf => {
    const next = new Set(Array.from(text, (_, from) => [...charsBehind(text.slice(from), node)]).flat());
    for (const char of charsBehind("", node)) next.add(char);
    const steps = [...next].map((char) => sequence(literal(char), behindEnd(text + char, node) ?? from(text + char)));
    const codes = [...next].map((char): CodeRange => [char.codePointAt(0) ?? 0, char.codePointAt(0) ?? 0]);
    return choice(EMPTY, ...steps, sequence(except(...codes), free));
  });
  const from = (text: string) => (begunMark(text, node) === "" ? free : rest(begunMark(text, node)));
  return from(begun);
}

/** Returns the grammar that is left of a stack: the rest of its top, then all below. */
function restOf(stack: Stack | undefined, rules: GrammarRules): Gbnf {
  const parts: Gbnf[] = [];
  for (let at = stack; at !== undefined; at = at.next) parts.push(restOfTop(at, rules));
  return parts.length === 0 ? EMPTY : sequence(...parts);
}

function restOfTop({ node, done }: Stack, rules: GrammarRules): Gbnf {
  switch (node.kind) {
    case "literal":
      return done === 0 ? node : literal(node.text.slice(Number(done)));
    case "repeat": {
      const times = Number(done);
      return repeat(node.part, Math.max(0, node.min - times), node.max === undefined ? undefined : node.max - times);
    }
    case "until":
      return restOfText(node, typeof done === "string" ? done : "", rules);
    default:
      return node;
  }
}
