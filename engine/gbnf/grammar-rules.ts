import { WorkBudget } from "../work-budget.ts";
import { choice, EMPTY, type Gbnf, NEVER, optional, repeat, rule, sequence, writeSet } from "./gbnf.ts";
import { FinishingRules } from "./prune.ts";

/**
 * The size of the blocks in which repetitions are written, because llama.cpp copies a repeated part once per
 * repetition.
 */
const BLOCK = 16;

/** The count from which on a repetition is a rule of its own. */
const LONG = 4;

/**
 * The count that no answer reaches: repetitions that end there or beyond are written without an end. Counting so far
 * takes rules that grow with the square of the count's logarithm, and callers write counts like 1e300.
 */
const BEYOND_ANSWERS = 2 ** 30;

/** The most states of the automata of all patterns of a grammar; each is a rule. */
const MAX_PATTERN_STATES = 4096;

/** The most ways on from one member of an object to the next, in free orders, of a whole grammar: some 130 KiB of text. */
const MAX_FREE_WAYS = 6_000;

/** The most work that the automata of all patterns of a grammar may cost. */
const PATTERNS_WORK = 36_000;

/** The work that making, pruning and writing a rule costs beside what its body does. */
const RULE_WORK = 8;

/**
 * The named rules of a grammar while it is built. Every rule is paid for from a budget of work; without any left, what
 * makes one throws `WorkSpent`.
 */
export class GrammarRules {
  #budget: WorkBudget;
  #patternBudget: WorkBudget;
  readonly #rules = new Map<string, Gbnf>();
  /** The references to rules that were made once, or why they could not be, by what they match. */
  readonly #once = new Map<string, Gbnf | Error>();
  #count = 0;
  #patternStates = 0;
  #freeWays = 0;
  #finishing = new FinishingRules(this.#rules);

  /** Makes an empty set of rules. `budget` is the work that making the grammar may cost; without bounds by default. */
  constructor(budget = new WorkBudget(Number.POSITIVE_INFINITY)) {
    this.#budget = budget;
    this.#patternBudget = new WorkBudget(PATTERNS_WORK, budget);
  }

  /** The work that making the grammar may cost; in an attempt the work that this may cost. */
  get budget(): WorkBudget {
    return this.#budget;
  }

  /** The part of the work that the automata of all patterns may cost: a pattern beyond it is in no grammar. */
  get patternBudget(): WorkBudget {
    return this.#patternBudget;
  }

  /**
   * Returns what `make` does, which may cost so much work. Where it throws, the rules that it made are gone, so that the
   * same can be tried in another way.
   */
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

  /** All rules by name. */
  get all(): ReadonlyMap<string, Gbnf> {
    return this.#rules;
  }

  /** What is known of which rules can be finished; those that are still being made must not be asked about. */
  get finishing(): FinishingRules {
    return this.#finishing;
  }

  /** Asks for `count` states for a pattern; false where there is no room for them. */
  takePatternStates(count: number): boolean {
    if (this.#patternStates + count > MAX_PATTERN_STATES) return false;
    this.#patternStates += count;
    return true;
  }

  /** Asks for `count` ways on from member to member in a free order; false where there is no room for them. */
  takeFreeWays(count: number): boolean {
    if (this.#freeWays + count > MAX_FREE_WAYS) return false;
    this.#freeWays += count;
    return true;
  }

  /** Refers to the rule of this name, which is made at its first use. */
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

  /** Makes a new rule. `build` gets the reference to it, so that it may refer to itself. */
  fresh(build: (self: Gbnf) => Gbnf): Gbnf {
    const name = `r${this.#count}`;
    this.#count += 1;
    return this.#begun(name, build);
  }

  /** Returns the reference to a new rule, which matches nothing before `define` says what it does. */
  declared(): Gbnf {
    const name = `r${this.#count}`;
    this.#count += 1;
    this.budget.pay(RULE_WORK);
    this.#rules.set(name, NEVER);
    return rule(name);
  }

  /** Says what a rule matches to which `declared` has returned the reference. */
  define(to: Gbnf, body: Gbnf): void {
    if (to.kind === "rule") this.#make(to.name, body);
  }

  #make(name: string, body: Gbnf): void {
    this.#rules.set(name, body);
    this.#finishing.note(name, body);
  }

  /** Refers to the rule for a key, which stands for what the rule matches; it is made at the key's first use. */
  once(key: string, build: () => Gbnf): Gbnf {
    const known = this.#once.get(key);
    if (known instanceof Error) throw known;
    if (known !== undefined) return known;
    try {
      const made = this.fresh(build);
      this.#once.set(key, made);
      return made;
    } catch (error) {
      // What could not be made once would cost its work again in vain.
      if (error instanceof Error) this.#once.set(key, error);
      throw error;
    }
  }

  /**
   * Matches between `least` and `most` times `part`, in space that grows with the logarithm of the counts. A `most` that
   * is undefined or 2^30 and more is without end, and 2^30 stands for any greater `least`: no answer comes so far. Many
   * places share a repetition of the same part and its blocks, as reading each costs its length.
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

  /** Refers to the rule of a full block of a part, where `min` is `BLOCK`, or of less than one, where it is 0. */
  #block(part: Gbnf, min: number): Gbnf {
    const build = () => repeat(part, min, min === BLOCK ? BLOCK : BLOCK - 1);
    const name = nameOf(part);
    return name === undefined ? this.fresh(build) : this.once(`block ${min} ${name}`, build);
  }

  /** Matches `part` between `min` and `max` times with `separator` between; `max` undefined is without end. */
  list(part: Gbnf, separator: Gbnf, min: number, max: number | undefined): Gbnf {
    if (max !== undefined && max < Math.max(min, 1)) return max < min ? choice() : EMPTY;
    const element = part.kind === "rule" ? part : this.fresh(() => part);
    const next = this.fresh(() => sequence(separator, element));
    const more = this.times(next, Math.max(min - 1, 0), max === undefined ? undefined : max - 1);
    const all = sequence(element, more);
    return min === 0 ? optional(all) : all;
  }
}

/** Returns a text that tells a part from all others; undefined for one that is neither a rule nor a set of characters. */
function nameOf(part: Gbnf): string | undefined {
  if (part.kind === "rule") return part.name;
  return part.kind === "chars" || part.kind === "except" ? writeSet(part) : undefined;
}
