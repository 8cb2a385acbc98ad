import { WorkBudget } from "../work-budget.ts";
import {
  type CodeRange,
  chars,
  choice,
  EMPTY,
  type Gbnf,
  type GrammarReader,
  LLAMA_CPP,
  NEVER,
  optional,
  repeat,
  rule,
  sequence,
  writeSet,
} from "./gbnf.ts";

type PrunedGrammar = { readonly root: Gbnf; readonly rules: ReadonlyMap<string, Gbnf> };

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
    const alive = withoutDeadEnds(node, finishing) ?? NEVER;
    keep(alive === node && name !== undefined ? finishing.usedBy(name) : references(alive));
    return alive;
  };
  const alive = visit(root);
  for (let name = open.pop(); name !== undefined; name = open.pop())
    kept.set(name, visit(rules.get(name) ?? NEVER, name));
  return { root: alive, rules: kept };
}

/**
 * Decides which expressions some text can finish: `r ::= "a" r` never can, `r ::= "a" r | "b"` can. It is the least
 * fixed point: no rule can, until one of its alternatives consists of what can. Rules still under construction must not
 * be passed.
 */
class FinishingRules {
  readonly #rules: ReadonlyMap<string, Gbnf>;
  readonly #finishing = new Set<string>();
  readonly #never = new Set<string>();
  readonly #uses = new Map<string, readonly string[]>();

  constructor(rules: ReadonlyMap<string, Gbnf>) {
    this.#rules = rules;
  }

  /** Records a finished rule, if its body is known to finish already: most are, and need no search. */
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

  /** Returns the rules that a rule refers to. */
  usedBy(name: string): readonly string[] {
    const known = this.#uses.get(name);
    if (known !== undefined) return known;
    const found = references(this.#bodyOf(name));
    this.#uses.set(name, found);
    return found;
  }

  /** Decides rules, those without undecided ones inside first. Returns the ones that no text can finish. */
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

  /** Returns the undecided rules below an expression, each behind those that it uses, circles apart. */
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

/** Undefined if nothing remains. */
function withoutDeadEnds(node: Gbnf, finishing: FinishingRules): Gbnf | undefined {
  switch (node.kind) {
    case "rule":
      return finishing.canFinish(node) ? node : undefined;
    case "sequence": {
      const parts = allWithoutDeadEnds(node.parts, finishing);
      if (parts === node.parts) return node;
      return parts.length === node.parts.length ? sequence(...parts) : undefined;
    }
    case "choice": {
      const options = allWithoutDeadEnds(node.options, finishing);
      if (options.length === 0) return undefined;
      return options === node.options ? node : choice(...options);
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

/** Most lists are unchanged and returned as they are: copies and closures for each expression would cost too much. */
function allWithoutDeadEnds(nodes: readonly Gbnf[], finishing: FinishingRules): readonly Gbnf[] {
  let changed: Gbnf[] | undefined;
  let at = 0;
  for (const node of nodes) {
    const alive = withoutDeadEnds(node, finishing);
    if (alive !== node) changed ??= nodes.slice(0, at);
    if (alive !== undefined) changed?.push(alive);
    at += 1;
  }
  return changed ?? nodes;
}

function references(node: Gbnf, found: string[] = []): string[] {
  if (node.kind === "rule") found.push(node.name);
  else if (node.kind === "repeat") references(node.part, found);
  else if (node.kind === "sequence") for (const part of node.parts) references(part, found);
  else if (node.kind === "choice") for (const option of node.options) references(option, found);
  else if (node.kind === "until") for (const { behind } of node.ends) references(behind, found);
  return found;
}

/** Repetitions per block: llama.cpp copies a repeated part once per repetition. */
const BLOCK = 16;

/** From so many repetitions on, a repetition is a rule that others share. */
const LONG = 4;

/** Larger counts are unbounded: exact ones need many rules, and callers write counts such as 1e300. */
const BEYOND_ANSWERS = 2 ** 30;

/** The maximum states of the automata of all patterns of a grammar; each state is a rule. */
const MAX_PATTERN_STATES = 4096;

/** The maximum transitions between members of objects in free order, per grammar: about 130 KiB of text. */
const MAX_FREE_WAYS = 6_000;

/** Steps of work for all automata of a grammar. */
const PATTERNS_WORK = 36_000;

/** The work of creating, pruning and writing a rule, without its body. */
const RULE_WORK = 8;

/** The named rules of a grammar. Every rule is charged to a work budget; `WorkSpent` is thrown when it is used up. */
export class GrammarRules {
  /** The program that reads the grammar: some forms cost one of them much. */
  readonly reader: GrammarReader;
  /** The work budget of the grammar; inside `attempt` that of the attempt. */
  budget: WorkBudget;
  /** The part of the budget for automata: a pattern beyond it is not enforced. */
  patternBudget: WorkBudget;
  readonly #rules = new Map<string, Gbnf>();
  /** The rules by their bodies. */
  readonly #byBody = new Map<string, string>();
  readonly #once = new Map<string, Gbnf | Error>();
  #count = 0;
  #patternStates = 0;
  #freeWays = 0;
  /** Which rules can finish; rules still under construction must not be passed. */
  finishing = new FinishingRules(this.#rules);

  constructor(budget = new WorkBudget(Number.POSITIVE_INFINITY), reader = LLAMA_CPP) {
    this.reader = reader;
    this.budget = budget;
    this.patternBudget = new WorkBudget(PATTERNS_WORK, budget);
  }

  /** Returns the result of `make`, which may spend `work`; if it throws, its rules are removed. */
  attempt<T>(work: number, make: () => T): T {
    const before = { budget: this.budget, patternBudget: this.patternBudget };
    const [states, freeWays] = [this.#patternStates, this.#freeWays];
    const [rules, once] = [this.#rules.size, this.#once.size];
    this.budget = new WorkBudget(work, before.budget);
    this.patternBudget = new WorkBudget(PATTERNS_WORK, this.budget);
    try {
      return make();
    } catch (error) {
      for (const name of [...this.#rules.keys()].slice(rules)) this.#rules.delete(name);
      for (const key of [...this.#once.keys()].slice(once)) this.#once.delete(key);
      this.#patternStates = states;
      this.#freeWays = freeWays;
      this.finishing = new FinishingRules(this.#rules);
      throw error;
    } finally {
      this.budget = before.budget;
      this.patternBudget = before.patternBudget;
    }
  }

  get all(): ReadonlyMap<string, Gbnf> {
    return this.#rules;
  }

  /** Takes states from the grammar's bound; false, and none taken, where they do not fit. */
  takePatternStates(count: number): boolean {
    if (this.#patternStates + count > MAX_PATTERN_STATES) return false;
    this.#patternStates += count;
    return true;
  }

  /** Takes transitions between members in free order, as `takePatternStates` does. */
  takeFreeWays(count: number): boolean {
    if (this.#freeWays + count > MAX_FREE_WAYS) return false;
    this.#freeWays += count;
    return true;
  }

  /** Refers to the rule with a name, which `build` makes at the first use. It may refer to itself. */
  named(name: string, build: () => Gbnf): Gbnf {
    return this.#rules.has(name) ? rule(name) : this.#begun(name, build);
  }

  #begun(name: string, build: (self: Gbnf) => Gbnf): Gbnf {
    const self = rule(name);
    this.budget.pay(RULE_WORK);
    // The name is taken while the body is built: it may use the rule.
    this.#rules.set(name, EMPTY);
    this.#make(name, build(self));
    return self;
  }

  /** Refers to a rule with this body: the same one for equal bodies, as xgrammar takes its time for each. */
  fresh(build: (self: Gbnf) => Gbnf): Gbnf {
    const name = `r${this.#count}`;
    this.#count += 1;
    const self = this.#begun(name, build);
    const body = this.#rules.get(name) ?? NEVER;
    const key = JSON.stringify(body, withoutWritten);
    const known = this.#byBody.get(key);
    // The rules of a failed attempt are gone.
    if (known !== undefined && this.#rules.has(known)) return rule(known);
    this.#byBody.set(key, name);
    return self;
  }

  /** Refers to a rule with this body, so that a body in several positions is written once. */
  shared(body: Gbnf): Gbnf {
    return body.kind === "rule" ? body : this.fresh(() => body);
  }

  /** Returns the reference to a new rule, which matches nothing until `define` is called. */
  declared(): Gbnf {
    const name = `r${this.#count}`;
    this.#count += 1;
    this.budget.pay(RULE_WORK);
    this.#rules.set(name, NEVER);
    return rule(name);
  }

  /** Gives a declared rule its body. */
  define(to: Gbnf, body: Gbnf): void {
    if (to.kind === "rule") this.#make(to.name, body);
  }

  /** Returns a function that refers to the rule for a key, of which `build` makes the body, once; it may recur. */
  keyed<Key extends readonly unknown[]>(build: (...key: Key) => Gbnf): (...key: Key) => Gbnf {
    const made = new Map<string, Gbnf>();
    return (...key) => {
      const known = made.get(key.join());
      if (known !== undefined) return known;
      const reference = this.declared();
      made.set(key.join(), reference);
      this.define(reference, build(...key));
      return reference;
    };
  }

  #make(name: string, body: Gbnf): void {
    this.#rules.set(name, body);
    this.finishing.note(name, body);
  }

  /** Refers to the rule for a key, created at the key's first use. The key must identify the rule's language. */
  once(key: string, build: () => Gbnf): Gbnf {
    const known = this.#once.get(key);
    if (known instanceof Error) throw known;
    if (known !== undefined) return known;
    try {
      const made = this.fresh(build);
      this.#once.set(key, made);
      return made;
    } catch (error) {
      // A second attempt would fail again at the same cost.
      if (error instanceof Error) this.#once.set(key, error);
      throw error;
    }
  }

  /**
   * Matches `part` from `least` to `most` times; rules grow with the logarithm of the counts, and are shared.
   *
   *     [a-z], 20 to 20   r0 ::= [a-z]{16}, then r0 [a-z]{4}
   *     [a-z], 0 to 40    r0? r1 | r0{2} [a-z]{0,8}   (r0 ::= [a-z]{16}, r1 ::= [a-z]{0,15})
   */
  times(part: Gbnf, least: number, most: number | undefined): Gbnf {
    const min = Math.min(least, BEYOND_ANSWERS);
    const max = most !== undefined && most < BEYOND_ANSWERS ? most : undefined;
    const name = (max ?? min) < LONG ? undefined : nameOf(part);
    if (name === undefined) return this.#times(part, min, max);
    return this.once(`times ${min} ${max} ${name}`, () => this.#times(part, min, max));
  }

  #times(part: Gbnf, min: number, max: number | undefined): Gbnf {
    if (max === undefined) return sequence(this.#exactly(part, min), repeat(part, 0, undefined));
    if (this.reader.name === "xgrammar" && max > LONG && max <= 4 * BLOCK && part.kind === "chars")
      return repeat(this.#counted(part.ranges), min, max);
    if (max <= BLOCK) return repeat(part, min, max);
    return sequence(this.#exactly(part, min), this.#upTo(part, max - min));
  }

  /** A character as a rule whose repetitions xgrammar counts; it writes a repeated set, or a rule of one, out. */
  #counted(ranges: readonly CodeRange[]): Gbnf {
    const [[low, high] = [0, 0], ...others] = ranges;
    const first: readonly CodeRange[] =
      low < high
        ? [
            [low, low],
            [low + 1, high],
          ]
        : [[low, high]];
    const [one = [0, 0], ...rest] = [...first, ...others];
    return rest.length === 0 ? chars(one) : this.once(`counted ${ranges}`, () => choice(chars(one), chars(...rest)));
  }

  #exactly(part: Gbnf, count: number): Gbnf {
    if (count <= BLOCK) return repeat(part, count, count);
    const block = this.#block(part, BLOCK);
    return sequence(this.#exactly(block, Math.floor(count / BLOCK)), repeat(part, count % BLOCK, count % BLOCK));
  }

  /** Matches up to `count` times: full blocks and then less than a block, so that every count has one reading. */
  #upTo(part: Gbnf, count: number): Gbnf {
    if (count <= BLOCK) return repeat(part, 0, count);
    const block = this.#block(part, BLOCK);
    const blocks = Math.floor(count / BLOCK);
    const partial = this.#block(part, 0);
    const last = repeat(part, 0, count % BLOCK);
    if (count % BLOCK === BLOCK - 1) return sequence(this.#upTo(block, blocks), partial);
    return choice(sequence(this.#upTo(block, blocks - 1), partial), sequence(this.#exactly(block, blocks), last));
  }

  /** A rule of 16 repetitions (`min` 16), or of less than 16 (`min` 0). */
  #block(part: Gbnf, min: number): Gbnf {
    const build = () => repeat(part, min, min === BLOCK ? BLOCK : BLOCK - 1);
    const name = nameOf(part);
    return name === undefined ? this.fresh(build) : this.once(`block ${min} ${name}`, build);
  }

  /** Matches a list of parts with a separator between two: 0 to 3 of x are `(x ("," x){0,2})?`. */
  list(part: Gbnf, separator: Gbnf, min: number, max: number | undefined): Gbnf {
    if (max !== undefined && max < Math.max(min, 1)) return max < min ? choice() : EMPTY;
    const element = part.kind === "rule" ? part : this.fresh(() => part);
    const next = this.fresh(() => sequence(separator, element));
    const more = this.times(next, Math.max(min - 1, 0), max === undefined ? undefined : max - 1);
    const all = sequence(element, more);
    return min === 0 ? optional(all) : all;
  }
}

function withoutWritten(key: string, value: unknown): unknown {
  return key === "written" ? undefined : value;
}

/** Returns a short text that identifies a part; undefined for parts whose text would cost as much as a rule. */
function nameOf(part: Gbnf): string | undefined {
  if (part.kind === "rule") return part.name;
  return part.kind === "chars" || part.kind === "except" ? writeSet(part) : undefined;
}
