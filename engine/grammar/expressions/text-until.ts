import { type CodeRange, chars, choice, EMPTY, type Gbnf, NEVER, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { ALL_CODES, subtract } from "./code-set.ts";
import { SPACES } from "./regular-expression.ts";

/** A mark that ends a text, with what comes behind it. */
export type TextEnd = {
  /** The mark, which is not empty and has no white space at its start. */
  readonly mark: string;
  /** The grammar of what comes behind the mark. */
  readonly behind: Gbnf;
  /** Whether the mark counts only where nothing but white space came before. Default: false. */
  readonly onlyFirst?: boolean;
  /** Whether `behind` begins with the mark, which is one character then. Default: false. */
  readonly isKept?: boolean;
};

/**
 * Matches any text up to the first of the marks, and what comes behind that. `mayEnd` says that the text may end
 * without a mark. There is one rule per beginning of a mark, each of which says what a further character makes of it
 * (the automaton of Aho and Corasick): a text has one reading, and costs the sampler next to nothing.
 */
export function textUntil(rules: GrammarRules, ends: readonly TextEnd[], mayEnd: boolean): Gbnf {
  const states = new Map<string, Gbnf>();
  const beginnings = new Beginnings(ends.flatMap(({ mark, onlyFirst }) => (onlyFirst ? [] : [mark])));
  const all = new Set(ends.flatMap(({ mark }) => [...mark]));
  const single = (char: string): CodeRange => [char.codePointAt(0) ?? 0, char.codePointAt(0) ?? 0];
  /** Returns the rule of a state, where `text` is what a mark could begin with, as far as it has been read. */
  const state = (text: string, isFirst: boolean): Gbnf => {
    const key = `${isFirst} ${text}`;
    const known = states.get(key);
    if (known !== undefined) return known;
    rules.fresh((self) => {
      states.set(key, self);
      const steps = new Map<Gbnf, CodeRange[]>();
      const go = (target: Gbnf, ranges: readonly CodeRange[]) =>
        steps.set(target, [...(steps.get(target) ?? []), ...ranges]);
      const endings: Gbnf[] = [];
      const codes = isFirst ? all : beginnings.charsBehind(text);
      const others = subtract(ALL_CODES, [...codes].map(single));
      for (const char of codes) {
        const longer = text + char;
        const end = endOf(ends, longer, isFirst);
        if (end !== undefined) endings.push(end.isKept ? end.behind : sequence(chars(single(char)), end.behind));
        else if (isFirst && ends.some(({ mark, onlyFirst }) => onlyFirst && mark.startsWith(longer))) {
          go(state(longer, true), [single(char)]);
        } else go(state(beginnings.longestIn(longer), false), [single(char)]);
      }
      const spaces = isFirst && text === "" ? SPACES : [];
      if (spaces.length > 0) go(self, spaces);
      go(state("", false), subtract(others, spaces));
      return choice(
        ...[...steps].map(([target, ranges]) => sequence(chars(...ranges), target)),
        ...endings,
        ...(mayEnd ? [EMPTY] : []),
      );
    });
    return states.get(key) ?? NEVER;
  };
  return state(
    "",
    ends.some(({ onlyFirst }) => onlyFirst),
  );
}

/** Matches any text in which `mark` does not stand, the empty one included. */
export function textWithout(rules: GrammarRules, mark: string): Gbnf {
  const name = [...mark].map((char) => (char.codePointAt(0) ?? 0).toString(16)).join("-");
  return rules.named(`without-${name}`, () => textUntil(rules, [{ mark, behind: NEVER }], true));
}

/** Returns the mark that is whole at the end of a text; of several the longest, which began first. */
function endOf(ends: readonly TextEnd[], text: string, isFirst: boolean): TextEnd | undefined {
  return ends
    .filter(({ mark, onlyFirst }) => (onlyFirst ? isFirst && text === mark : text.endsWith(mark)))
    .reduce<TextEnd | undefined>((a, b) => (a === undefined || b.mark.length > a.mark.length ? b : a), undefined);
}

/** The beginnings of marks, each with the characters that may follow it. */
class Beginnings {
  readonly #next = new Map<string, Set<string>>([["", new Set()]]);

  constructor(marks: readonly string[]) {
    for (const mark of marks) {
      let text = "";
      for (const char of mark) {
        const next = this.#next.get(text) ?? new Set();
        this.#next.set(text, next.add(char));
        text += char;
      }
    }
  }

  /** Returns the longest end of a text that is a beginning. */
  longestIn(text: string): string {
    let from = 0;
    while (!this.#next.has(text.slice(from))) from += 1;
    return text.slice(from);
  }

  /** Returns the characters that make a longer beginning of a text that is one, or of an end of it. */
  charsBehind(text: string): ReadonlySet<string> {
    const found = new Set(this.#next.get(text));
    if (text === "") return found;
    for (const char of this.charsBehind(this.longestIn(text.slice(1)))) found.add(char);
    return found;
  }
}
