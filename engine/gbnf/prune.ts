import { choice, EMPTY, type Gbnf, NEVER, repeat, sequence } from "./gbnf.ts";

export type PrunedGrammar = { readonly root: Gbnf; readonly rules: ReadonlyMap<string, Gbnf> };

/** Removes expressions that can never finish, and unused rules. Undefined if the root can match nothing. */
export function prune(
  root: Gbnf,
  rules: ReadonlyMap<string, Gbnf>,
  finishing = new FinishingRules(rules),
): PrunedGrammar | undefined {
  if (!finishing.canFinish(root)) return undefined;
  const kept = new Map<string, Gbnf>();
  const open: string[] = [];
  const keep = (names: readonly string[]) => {
    for (const name of names) {
      if (kept.has(name) || !rules.has(name)) continue;
      kept.set(name, NEVER);
      open.push(name);
    }
  };
  const visit = (node: Gbnf, name?: string): Gbnf => {
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

/** Decides which expressions some text can finish. Rules still under construction must not be passed. */
export class FinishingRules {
  readonly #rules: ReadonlyMap<string, Gbnf>;
  readonly #finishing = new Set<string>();
  readonly #never = new Set<string>();
  readonly #uses = new Map<string, readonly string[]>();

  constructor(rules: ReadonlyMap<string, Gbnf>) {
    this.#rules = rules;
  }

  note(name: string, body: Gbnf): void {
    if (this.#finishes(body)) this.#finishing.add(name);
  }

  canFinish(node: Gbnf): boolean {
    if (this.#finishes(node)) return true;
    if (node.kind === "rule" && this.#never.has(node.name)) return false;
    const added = this.#unknown(node);
    const waiting = this.#look(added);
    for (const name of waiting) this.#never.add(name);
    return this.#finishes(node);
  }

  usedBy(name: string): readonly string[] {
    const known = this.#uses.get(name);
    if (known !== undefined) return known;
    const found = references(this.#bodyOf(name));
    this.#uses.set(name, found);
    return found;
  }

  #look(rules: readonly string[]): ReadonlySet<string> {
    const waiting = new Set<string>();
    for (const name of rules) {
      if (this.#finishes(this.#bodyOf(name))) this.#finishing.add(name);
      else waiting.add(name);
    }
    if (waiting.size === 0) return waiting;
    /** In a cycle a rule may become able to finish after its users were examined. */
    const users = new Map<string, string[]>();
    for (const name of waiting) {
      for (const used of this.usedBy(name)) {
        const of = users.get(used);
        if (of) of.push(name);
        else users.set(used, [name]);
      }
    }
    // Iteration over a set includes entries added meanwhile, so each rule is queued at most once.
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
      case "until":
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

/** A loop: a closure for each expression would cost too much. */
function haveDeadEnd(nodes: readonly Gbnf[], finishing: FinishingRules): boolean {
  for (const node of nodes) if (hasDeadEnd(node, finishing)) return true;
  return false;
}

/** Undefined if nothing remains. */
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

function references(node: Gbnf, found: string[] = []): string[] {
  if (node.kind === "rule") found.push(node.name);
  else if (node.kind === "repeat") references(node.part, found);
  else if (node.kind === "sequence") for (const part of node.parts) references(part, found);
  else if (node.kind === "choice") for (const option of node.options) references(option, found);
  else if (node.kind === "until") for (const { behind } of node.ends) references(behind, found);
  return found;
}
