import { choice, EMPTY, type Gbnf, NEVER, repeat, sequence } from "./gbnf.ts";

/** A grammar without dead ends: what it begins with (`root`), and the rules that are referred to, by name. */
export type PrunedGrammar = { readonly root: Gbnf; readonly rules: ReadonlyMap<string, Gbnf> };

/**
 * Takes out what can never be finished (an object that must hold itself, a choice of nothing), so that a model cannot
 * walk into it, and the rules that nothing refers to. `finishing` is what is known of the rules. Undefined where nothing
 * can match at all.
 */
export function prune(
  root: Gbnf,
  rules: ReadonlyMap<string, Gbnf>,
  finishing = new FinishingRules(rules),
): PrunedGrammar | undefined {
  if (!finishing.canFinish(root)) return undefined;
  const kept = new Map<string, Gbnf>();
  /** The rules that are kept and whose bodies are still to be gone through. */
  const open: string[] = [];
  const keep = (names: readonly string[]) => {
    for (const name of names) {
      if (kept.has(name) || !rules.has(name)) continue;
      kept.set(name, NEVER);
      open.push(name);
    }
  };
  const visit = (node: Gbnf, name?: string): Gbnf => {
    // Most rules lead to no dead end.
    const isWhole = !hasDeadEnd(node, finishing);
    const alive = isWhole ? node : (withoutDeadEnds(node, finishing) ?? NEVER);
    keep(isWhole && name !== undefined ? finishing.usedBy(name) : references(alive));
    return alive;
  };
  const alive = visit(root);
  for (let name = open.pop(); name !== undefined; name = open.pop())
    kept.set(name, visit(rules.get(name) ?? NEVER, name));
  return { root: alive, rules: kept };
}

/**
 * Tells which expressions some text can finish. The rules may grow between two questions, and each is looked at once
 * or, where it was not known to finish, with what is new; rules that are still being made must not be asked about.
 */
export class FinishingRules {
  readonly #rules: ReadonlyMap<string, Gbnf>;
  readonly #finishing = new Set<string>();
  readonly #never = new Set<string>();
  /** The names of the rules that a rule refers to, by its name. */
  readonly #uses = new Map<string, readonly string[]>();

  constructor(rules: ReadonlyMap<string, Gbnf>) {
    this.#rules = rules;
  }

  /** Takes note of a rule that has just been made: where it leads to what can be finished it is not looked at again. */
  note(name: string, body: Gbnf): void {
    if (this.#finishes(body)) this.#finishing.add(name);
  }

  /** Returns whether some text matches the expression to its end. */
  canFinish(node: Gbnf): boolean {
    if (this.#finishes(node)) return true;
    if (node.kind === "rule" && this.#never.has(node.name)) return false;
    const added = this.#unknown(node);
    const waiting = this.#look(added);
    for (const name of waiting) this.#never.add(name);
    return this.#finishes(node);
  }

  /** Returns the names of the rules to which a rule refers that is not being made any more. */
  usedBy(name: string): readonly string[] {
    const known = this.#uses.get(name);
    if (known !== undefined) return known;
    const found = references(this.#bodyOf(name));
    this.#uses.set(name, found);
    return found;
  }

  /** Finds out about rules, each of which comes behind those that it refers to, and returns those that never finish. */
  #look(rules: readonly string[]): ReadonlySet<string> {
    const waiting = new Set<string>();
    for (const name of rules) {
      if (this.#finishes(this.#bodyOf(name))) this.#finishing.add(name);
      else waiting.add(name);
    }
    if (waiting.size === 0) return waiting;
    /** The rules that wait for a rule. In a circle a rule may finish after what refers to it was looked at. */
    const users = new Map<string, string[]>();
    for (const name of waiting) {
      for (const used of this.usedBy(name)) {
        const of = users.get(used);
        if (of) of.push(name);
        else users.set(used, [name]);
      }
    }
    // A set is gone through in the order of adding, and what is added meanwhile as well: each rule waits for its turn once.
    const turns = new Set(waiting);
    for (const name of turns) {
      turns.delete(name);
      if (!waiting.has(name) || !this.#finishes(this.#bodyOf(name))) continue;
      this.#finishing.add(name);
      waiting.delete(name);
      for (const user of users.get(name) ?? []) turns.add(user);
    }
    return waiting;
  }

  /** Returns the rules that an expression leads to and of which nothing is known, each behind those it refers to. */
  #unknown(node: Gbnf): readonly string[] {
    const seen = new Set<string>();
    const found: string[] = [];
    const uses = references(node);
    const open: { readonly name: string; readonly uses: readonly string[]; left: number }[] = [
      { name: "", uses, left: uses.length },
    ];
    for (let last = open.at(-1); last !== undefined; last = open.at(-1)) {
      last.left -= 1;
      const name = last.uses[last.left];
      if (name === undefined) {
        open.pop();
        if (last.name !== "") found.push(last.name);
      } else if (!seen.has(name) && !this.#finishing.has(name) && !this.#never.has(name)) {
        seen.add(name);
        const inside = this.usedBy(name);
        open.push({ name, uses: inside, left: inside.length });
      }
    }
    return found;
  }

  #bodyOf(name: string): Gbnf {
    return this.#rules.get(name) ?? NEVER;
  }

  #finishes(node: Gbnf): boolean {
    switch (node.kind) {
      case "literal":
      case "chars":
      case "except":
        return true;
      case "rule":
        return this.#finishing.has(node.name);
      case "sequence":
        for (const part of node.parts) if (!this.#finishes(part)) return false;
        return true;
      case "choice":
        for (const option of node.options) if (this.#finishes(option)) return true;
        return false;
      case "repeat":
        return node.min === 0 || this.#finishes(node.part);
    }
  }
}

/** Returns whether an expression leads anywhere to what can never be finished. */
function hasDeadEnd(node: Gbnf, finishing: FinishingRules): boolean {
  switch (node.kind) {
    case "rule":
      return !finishing.canFinish(node);
    case "sequence":
      return haveDeadEnd(node.parts, finishing);
    case "choice":
      return node.options.length === 0 || haveDeadEnd(node.options, finishing);
    case "repeat":
      return hasDeadEnd(node.part, finishing);
    default:
      return false;
  }
}

/** Returns whether one of the expressions does. It is asked of every one of a grammar: no function is made for each. */
function haveDeadEnd(nodes: readonly Gbnf[], finishing: FinishingRules): boolean {
  for (const node of nodes) if (hasDeadEnd(node, finishing)) return true;
  return false;
}

/**
 * Returns what of an expression can be finished; undefined where nothing can. It goes through the expression once: grammars of callers' schemas are deep.
 */
function withoutDeadEnds(node: Gbnf, finishing: FinishingRules): Gbnf | undefined {
  switch (node.kind) {
    case "rule":
      return finishing.canFinish(node) ? node : undefined;
    case "sequence": {
      const parts = node.parts.map((part) => withoutDeadEnds(part, finishing));
      if (parts.every((part, at) => part === node.parts[at])) return node;
      const alive = parts.filter((part) => part !== undefined);
      return alive.length === parts.length ? sequence(...alive) : undefined;
    }
    case "choice": {
      const options = node.options.map((option) => withoutDeadEnds(option, finishing));
      const alive = options.filter((option) => option !== undefined);
      if (alive.length === 0) return undefined;
      return alive.every((option, at) => option === node.options[at]) && alive.length === options.length
        ? node
        : choice(...alive);
    }
    case "repeat": {
      const part = withoutDeadEnds(node.part, finishing);
      if (part === undefined) return node.min === 0 ? EMPTY : undefined;
      return part === node.part ? node : repeat(part, node.min, node.max);
    }
    default:
      return node;
  }
}

/** Returns the names of the rules in an expression. */
function references(node: Gbnf, found: string[] = []): string[] {
  if (node.kind === "rule") found.push(node.name);
  else if (node.kind === "repeat") references(node.part, found);
  else if (node.kind === "sequence") for (const part of node.parts) references(part, found);
  else if (node.kind === "choice") for (const option of node.options) references(option, found);
  return found;
}
