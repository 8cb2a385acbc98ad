import { choice, EMPTY, type Gbnf, NEVER, repeat, sequence } from "./gbnf.ts";

/** A grammar without dead ends. */
export type PrunedGrammar = { readonly root: Gbnf; readonly rules: ReadonlyMap<string, Gbnf> };

/**
 * Takes out what can never be finished (an object that must hold itself, a choice of nothing), so that a model cannot
 * walk into it, and the rules that nothing refers to. Undefined where nothing can match at all.
 */
export function prune(root: Gbnf, rules: ReadonlyMap<string, Gbnf>): PrunedGrammar | undefined {
  const productive = productiveRules(rules);
  const isAlive = (node: Gbnf) => canFinish(node, productive);
  if (!isAlive(root)) return undefined;
  const kept = new Map<string, Gbnf>();
  const visit = (node: Gbnf): Gbnf => {
    const alive = withoutDeadEnds(node, isAlive);
    for (const name of references(alive)) {
      const body = rules.get(name);
      if (body === undefined || kept.has(name)) continue;
      kept.set(name, NEVER);
      kept.set(name, visit(body));
    }
    return alive;
  };
  return { root: visit(root), rules: kept };
}

function productiveRules(rules: ReadonlyMap<string, Gbnf>): ReadonlySet<string> {
  const productive = new Set<string>();
  for (let before = -1; before < productive.size; ) {
    before = productive.size;
    for (const [name, body] of rules) if (canFinish(body, productive)) productive.add(name);
  }
  return productive;
}

function canFinish(node: Gbnf, productive: ReadonlySet<string>): boolean {
  switch (node.kind) {
    case "literal":
    case "chars":
      return true;
    case "rule":
      return productive.has(node.name);
    case "sequence":
      return node.parts.every((part) => canFinish(part, productive));
    case "choice":
      return node.options.some((option) => canFinish(option, productive));
    case "repeat":
      return node.min === 0 || canFinish(node.part, productive);
  }
}

function withoutDeadEnds(node: Gbnf, isAlive: (node: Gbnf) => boolean): Gbnf {
  switch (node.kind) {
    case "sequence":
      return sequence(...node.parts.map((part) => withoutDeadEnds(part, isAlive)));
    case "choice":
      return choice(...node.options.filter(isAlive).map((option) => withoutDeadEnds(option, isAlive)));
    case "repeat":
      return isAlive(node.part) ? repeat(withoutDeadEnds(node.part, isAlive), node.min, node.max) : EMPTY;
    default:
      return node;
  }
}

function references(node: Gbnf): readonly string[] {
  switch (node.kind) {
    case "rule":
      return [node.name];
    case "sequence":
      return node.parts.flatMap(references);
    case "choice":
      return node.options.flatMap(references);
    case "repeat":
      return references(node.part);
    default:
      return [];
  }
}
