import { type CodeRange, chars, choice, EMPTY, type Gbnf, literal, NEVER, repeat, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { ALL_CODES, subtract } from "./code-set.ts";
import { SPACES } from "./regular-expression.ts";

export type TextEnd = {
  /** The mark: not empty, and without leading white space. */
  readonly mark: string;
  readonly behind: Gbnf;
  /** Whether the mark counts only if nothing but white space precedes it. Default: false. */
  readonly onlyFirst?: boolean;
  /** Whether `behind` includes the mark, which is a single character then. Default: false. */
  readonly isKept?: boolean;
};

/**
 * Any text up to the first mark, and the grammar after it: one rule per prefix of a mark (Aho and Corasick), so that a
 * text has one reading.
 */
export function textUntil(rules: GrammarRules, ends: readonly TextEnd[], mayEnd: boolean): Gbnf {
  const states = new Map<string, Gbnf>();
  const beginnings = new Beginnings(ends.flatMap(({ mark, onlyFirst }) => (onlyFirst ? [] : [mark])));
  const all = new Set(ends.flatMap(({ mark }) => [...mark]));
  const single = (char: string): CodeRange => [char.codePointAt(0) ?? 0, char.codePointAt(0) ?? 0];
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

/**
 * Matches as `textUntil` does, in the form that xgrammar's reader holds cheaply. Such text may end without a mark. Text
 * that begins with a mark that counts there only may also be read as text without that mark.
 */
export function freeTextUntil(rules: GrammarRules, ends: readonly TextEnd[]): Gbnf {
  if (ends.some(({ isKept }) => isKept)) return textUntil(rules, ends, true);
  const [first, others] = [ends.filter(({ onlyFirst }) => onlyFirst), ends.filter(({ onlyFirst }) => !onlyFirst)];
  const free: Gbnf = {
    kind: "until",
    ends: others.map(({ mark, behind }) => ({ mark, behind: rules.fresh(() => behind) })),
  };
  if (first.length === 0) return free;
  const atStart = first.map(({ mark, behind }) =>
    sequence(repeat(chars(...SPACES), 0, undefined), literal(mark), behind),
  );
  return choice(
    ...atStart,
    rules.fresh(() => free),
  );
}

export function textWithout(rules: GrammarRules, mark: string): Gbnf {
  const name = [...mark].map((char) => (char.codePointAt(0) ?? 0).toString(16)).join("-");
  return rules.named(`without-${name}`, () => textUntil(rules, [{ mark, behind: NEVER }], true));
}

function endOf(ends: readonly TextEnd[], text: string, isFirst: boolean): TextEnd | undefined {
  return ends
    .filter(({ mark, onlyFirst }) => (onlyFirst ? isFirst && text === mark : text.endsWith(mark)))
    .reduce<TextEnd | undefined>((a, b) => (a === undefined || b.mark.length > a.mark.length ? b : a), undefined);
}

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

  longestIn(text: string): string {
    let from = 0;
    while (!this.#next.has(text.slice(from))) from += 1;
    return text.slice(from);
  }

  charsBehind(text: string): ReadonlySet<string> {
    const found = new Set(this.#next.get(text));
    if (text === "") return found;
    for (const char of this.charsBehind(this.longestIn(text.slice(1)))) found.add(char);
    return found;
  }
}
