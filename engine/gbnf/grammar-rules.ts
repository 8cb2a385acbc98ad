import { WorkBudget } from "../work-budget.ts";
import { choice, EMPTY, type Gbnf, NEVER, optional, repeat, rule, sequence, writeSet } from "./gbnf.ts";
import { FinishingRules } from "./prune.ts";

/** Repetitions per block: llama.cpp copies a repeated part once per repetition. */
const BLOCK = 16;

const LONG = 4;

/** Larger counts are unbounded: exact ones need many rules, and callers write counts such as 1e300. */
const BEYOND_ANSWERS = 2 ** 30;

/** The maximum states of the automata of all patterns of a grammar; each state is a rule. */
const MAX_PATTERN_STATES = 4096;

/** The maximum transitions between members of objects in free order, per grammar: about 130 KiB of text. */
const MAX_FREE_WAYS = 6_000;

const PATTERNS_WORK = 36_000;

/** The work of creating, pruning and writing a rule, without its body. */
const RULE_WORK = 8;

/** The named rules of a grammar. Every rule is charged to a work budget; `WorkSpent` is thrown when it is used up. */
export class GrammarRules {
  #budget: WorkBudget;
  #patternBudget: WorkBudget;
  readonly #rules = new Map<string, Gbnf>();
  readonly #once = new Map<string, Gbnf | Error>();
  #count = 0;
  #patternStates = 0;
  #freeWays = 0;
  #finishing = new FinishingRules(this.#rules);

  constructor(budget = new WorkBudget(Number.POSITIVE_INFINITY)) {
    this.#budget = budget;
    this.#patternBudget = new WorkBudget(PATTERNS_WORK, budget);
  }

  /** The work budget of the grammar; inside `attempt` that of the attempt. */
  get budget(): WorkBudget {
    return this.#budget;
  }

  /** The part of the budget for automata: a pattern beyond it is not enforced. */
  get patternBudget(): WorkBudget {
    return this.#patternBudget;
  }

  /** Returns the result of `make`, which may spend `work`; if it throws, its rules are removed. */
  attempt<T>(work: number, make: () => T): T {
    const before = { budget: this.#budget, patternBudget: this.#patternBudget };
    const [states, freeWays] = [this.#patternStates, this.#freeWays];
    const [rules, once] = [this.#rules.size, this.#once.size];
    this.#budget = new WorkBudget(work, before.budget);
    this.#patternBudget = new WorkBudget(PATTERNS_WORK, this.#budget);
    try {
      return make();
    } catch (error) {
      for (const name of [...this.#rules.keys()].slice(rules)) this.#rules.delete(name);
      for (const key of [...this.#once.keys()].slice(once)) this.#once.delete(key);
      this.#patternStates = states;
      this.#freeWays = freeWays;
      this.#finishing = new FinishingRules(this.#rules);
      throw error;
    } finally {
      this.#budget = before.budget;
      this.#patternBudget = before.patternBudget;
    }
  }

  get all(): ReadonlyMap<string, Gbnf> {
    return this.#rules;
  }

  /** Which rules can finish; rules still under construction must not be passed. */
  get finishing(): FinishingRules {
    return this.#finishing;
  }

  takePatternStates(count: number): boolean {
    if (this.#patternStates + count > MAX_PATTERN_STATES) return false;
    this.#patternStates += count;
    return true;
  }

  takeFreeWays(count: number): boolean {
    if (this.#freeWays + count > MAX_FREE_WAYS) return false;
    this.#freeWays += count;
    return true;
  }

  named(name: string, build: () => Gbnf): Gbnf {
    return this.#rules.has(name) ? rule(name) : this.#begun(name, build);
  }

  #begun(name: string, build: (self: Gbnf) => Gbnf): Gbnf {
    const self = rule(name);
    this.budget.pay(RULE_WORK);
    this.#rules.set(name, EMPTY);
    this.#make(name, build(self));
    return self;
  }

  fresh(build: (self: Gbnf) => Gbnf): Gbnf {
    const name = `r${this.#count}`;
    this.#count += 1;
    return this.#begun(name, build);
  }

  /** Returns the reference to a new rule, which matches nothing until `define` is called. */
  declared(): Gbnf {
    const name = `r${this.#count}`;
    this.#count += 1;
    this.budget.pay(RULE_WORK);
    this.#rules.set(name, NEVER);
    return rule(name);
  }

  define(to: Gbnf, body: Gbnf): void {
    if (to.kind === "rule") this.#make(to.name, body);
  }

  #make(name: string, body: Gbnf): void {
    this.#rules.set(name, body);
    this.#finishing.note(name, body);
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
   * Matches `part` from `least` to `most` times; rules grow with the logarithm of the counts, and equal ones are
   * shared.
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
    if (max <= BLOCK) return repeat(part, min, max);
    return sequence(this.#exactly(part, min), this.#upTo(part, max - min));
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

  #block(part: Gbnf, min: number): Gbnf {
    const build = () => repeat(part, min, min === BLOCK ? BLOCK : BLOCK - 1);
    const name = nameOf(part);
    return name === undefined ? this.fresh(build) : this.once(`block ${min} ${name}`, build);
  }

  list(part: Gbnf, separator: Gbnf, min: number, max: number | undefined): Gbnf {
    if (max !== undefined && max < Math.max(min, 1)) return max < min ? choice() : EMPTY;
    const element = part.kind === "rule" ? part : this.fresh(() => part);
    const next = this.fresh(() => sequence(separator, element));
    const more = this.times(next, Math.max(min - 1, 0), max === undefined ? undefined : max - 1);
    const all = sequence(element, more);
    return min === 0 ? optional(all) : all;
  }
}

function nameOf(part: Gbnf): string | undefined {
  if (part.kind === "rule") return part.name;
  return part.kind === "chars" || part.kind === "except" ? writeSet(part) : undefined;
}
