import { choice, EMPTY, type Gbnf, NEVER, optional, repeat, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { comma } from "../../gbnf/json-value.ts";
import { allOf, knowing, namesIn, type Presence, PresenceNumbers } from "../schema/presence.ts";

export type Member = {
  readonly name: string;
  readonly text: Gbnf;
  readonly isRequired: boolean;
};

export type MemberRules = {
  readonly presence: readonly Presence[];
  readonly min: number;
  readonly max: number | undefined;
  readonly isFree: boolean;
};

/** The maximum named members in free order: each set of remaining ones is a rule. */
const MAX_FREE_MEMBERS = 8;

/**
 * Members between the braces: named ones in order, then members of `other`; in free order up to eight named ones in any
 * order. Every text has one reading. Throws `WorkSpent`.
 */
export function memberList(
  rules: GrammarRules,
  members: readonly Member[],
  other: Gbnf | undefined,
  asked: MemberRules,
): Gbnf {
  const free = asked.isFree ? freeMembers(rules, members, other, asked) : undefined;
  if (free !== undefined || (asked.isFree && other !== undefined))
    return new MemberList(rules, members, other, asked, free).all();
  const required = members.filter(({ isRequired }) => isRequired).length;
  const most = asked.max ?? Number.POSITIVE_INFINITY;
  const isPlain =
    asked.presence.every((each) => each === true) &&
    asked.min <= required &&
    most >= members.length &&
    (other === undefined || most === Number.POSITIVE_INFINITY);
  if (isPlain) return plainList(rules, members, other);
  return new MemberList(rules, members, other, { ...asked, isFree: false }, undefined).all();
}

/** The comma before a member depends on whether another precedes it. */
function plainList(rules: GrammarRules, members: readonly Member[], other: Gbnf | undefined): Gbnf {
  if (members.length === 0) return other === undefined ? EMPTY : rules.list(other, comma(rules), 0, undefined);
  const separated = (text: Gbnf) => sequence(comma(rules), text);
  const others =
    other === undefined
      ? EMPTY
      : repeat(
          rules.fresh(() => separated(other)),
          0,
          undefined,
        );
  const firstRequired = members.findIndex((member) => member.isRequired);
  const leading = firstRequired < 0 ? members.length : firstRequired + 1;
  // After the first `leading` members a comma is always needed.
  let behind: Gbnf = sequence(
    ...members.slice(leading).map(({ text, isRequired }) => (isRequired ? separated(text) : optional(separated(text)))),
    others,
  );
  const starts: Gbnf[] = firstRequired < 0 ? [other === undefined ? EMPTY : optional(sequence(other, others))] : [];
  for (let i = leading - 1; i >= 0; i -= 1) {
    const member = members[i];
    if (member === undefined) continue;
    const rest = behind;
    const restRule = rest.kind === "sequence" && rest.parts.length === 0 ? rest : rules.fresh(() => rest);
    starts.unshift(sequence(member.text, restRule));
    behind = sequence(member.isRequired ? separated(member.text) : optional(separated(member.text)), restRule);
  }
  return choice(...starts);
}

/** Returns the condition before the first member; required members count as present. */
function stillAsked({ budget }: GrammarRules, members: readonly Member[], { presence }: MemberRules): Presence {
  let asked = allOf(presence);
  for (const { name, isRequired } of members) if (isRequired) asked = knowing(asked, name, true, budget);
  return asked;
}

function askedFor(members: readonly Member[], { presence }: MemberRules): readonly number[] {
  const names = new Set(presence.flatMap((each) => [...namesIn(each)]));
  return [...members.entries()].flatMap(([at, { name, isRequired }]) => (isRequired || names.has(name) ? [at] : []));
}

function countsOptional(members: readonly Member[], { min, max }: MemberRules): boolean {
  return max !== undefined || min > members.filter(({ isRequired }) => isRequired).length;
}

/** All members, or those required or in a condition; undefined if too many, or the grammar's limit is exhausted. */
function freeMembers(
  rules: GrammarRules,
  members: readonly Member[],
  other: Gbnf | undefined,
  asked: MemberRules,
): readonly number[] | undefined {
  const free = members.length <= MAX_FREE_MEMBERS ? [...members.keys()] : askedFor(members, asked);
  if (free.length > MAX_FREE_MEMBERS) return undefined;
  const rest = members.length - free.length;
  const isAnywhere = other !== undefined && !countsOptional(members, asked);
  const counts = Math.min(countableOf(asked), members.length) + 1;
  const places = 2 ** free.length * (isAnywhere ? 1 : rest + 1) * (countsOptional(members, asked) ? counts : 1);
  return rules.takeFreeWays(places * (free.length / 2 + (isAnywhere ? rest : 1) + 1)) ? free : undefined;
}

/** Returns the number of members beyond which the bounds no longer distinguish counts. */
function countableOf({ min, max }: MemberRules): number {
  return Math.max(1, min, max === undefined ? 0 : max + 1);
}

/** `isOpen`: a member out of order may be next. */
type Place = {
  readonly left: readonly number[];
  readonly at: number;
  readonly count: number;
  readonly asked: Presence;
  readonly isOpen: boolean;
};

/** A rule per set of remaining free members. With other members allowed, a name may repeat: the last counts. */
class MemberList {
  readonly #rules: GrammarRules;
  readonly #members: readonly Member[];
  readonly #other: Gbnf | undefined;
  readonly #asked: MemberRules;
  readonly #free: readonly number[];
  readonly #ordered: readonly number[];
  readonly #anywhere: readonly number[];
  readonly #countable: number;
  readonly #askings = new PresenceNumbers();
  readonly #made = new Map<string, Gbnf>();

  constructor(
    rules: GrammarRules,
    members: readonly Member[],
    other: Gbnf | undefined,
    asked: MemberRules,
    free: readonly number[] | undefined,
  ) {
    this.#rules = rules;
    this.#members = members;
    this.#other = other && rules.fresh(() => other);
    this.#asked = asked;
    this.#countable = countableOf(asked);
    this.#free = free ?? [];
    const rest = [...members.keys()].filter((at) => !this.#free.includes(at));
    const isAnywhere = free !== undefined && other !== undefined && !countsOptional(members, asked);
    this.#ordered = isAnywhere ? [] : rest;
    this.#anywhere = isAnywhere ? rest : [];
  }

  all(): Gbnf {
    const asked = stillAsked(this.#rules, this.#members, this.#asked);
    return this.#from({ left: this.#free, at: 0, count: 0, asked, isOpen: this.#asked.isFree });
  }

  #from(place: Place): Gbnf {
    const { left, at, count, asked, isOpen } = place;
    if (asked === false || count > (this.#asked.max ?? count)) return NEVER;
    const key = `${left.join()} ${at} ${count} ${isOpen} ${this.#askings.of(asked, this.#rules.budget)}`;
    const known = this.#made.get(key);
    if (known !== undefined) return known;
    this.#rules.budget.payForText(key.length);
    const reference = this.#rules.declared();
    this.#made.set(key, reference);
    this.#rules.define(reference, choice(...(isOpen ? this.#outOfOrder(place) : []), ...this.#inOrder(place)));
    return reference;
  }

  #outOfOrder(place: Place): readonly Gbnf[] {
    const { left, count } = place;
    const others =
      this.#other === undefined ? [] : [this.#written(this.#other, { ...place, count: this.#next(count) }, count)];
    const free = left.map((each) => this.#present(each, { ...place, left: left.filter((other) => other !== each) }));
    return [...others, ...this.#anywhere.map((each) => this.#present(each, place)), ...free];
  }

  #inOrder(place: Place): readonly Gbnf[] {
    const next = this.#ordered[place.at];
    if (next === undefined && !this.#asked.isFree) return place.asked === true ? [this.#others(place.count)] : [];
    if (next === undefined) return this.#mayEnd(place) ? [EMPTY] : [];
    const behind = { ...place, at: place.at + 1 };
    const present = this.#present(next, behind);
    const { name, isRequired } = this.#member(next);
    if (isRequired) return [present];
    // Members out of order follow a written member directly, so that a text has one reading.
    const asked = knowing(place.asked, name, false, this.#rules.budget);
    return [present, this.#from({ ...behind, asked, isOpen: false })];
  }

  #present(at: number, behind: Place): Gbnf {
    const { name, text } = this.#member(at);
    if (text === NEVER) return NEVER;
    const asked = knowing(behind.asked, name, true, this.#rules.budget);
    const { count } = behind;
    return this.#written(text, { ...behind, count: this.#next(count), asked, isOpen: this.#asked.isFree }, count);
  }

  #written(text: Gbnf, behind: Place, count: number): Gbnf {
    return sequence(...(count > 0 ? [comma(this.#rules)] : []), text, this.#from(behind));
  }

  #others(count: number): Gbnf {
    const { min, max } = this.#asked;
    const least = Math.max(0, min - count);
    const most = max === undefined ? undefined : max - count;
    if (this.#other === undefined) return least > 0 ? NEVER : EMPTY;
    if (count === 0) return this.#rules.list(this.#other, comma(this.#rules), least, most);
    const other = this.#other;
    return this.#rules.times(
      this.#rules.once(`, ${other.kind === "rule" ? other.name : ""}`, () => sequence(comma(this.#rules), other)),
      least,
      most,
    );
  }

  #mayEnd({ left, count, asked }: Place): boolean {
    if (count < this.#asked.min) return false;
    let known = asked;
    for (const at of left) {
      const { name, isRequired } = this.#member(at);
      if (isRequired) return false;
      known = knowing(known, name, false, this.#rules.budget);
    }
    return known === true;
  }

  #next(count: number): number {
    return Math.min(count + 1, this.#countable);
  }

  #member(at: number): Member {
    return this.#members[at] ?? { name: "", text: NEVER, isRequired: false };
  }
}
