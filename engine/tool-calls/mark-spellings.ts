import { MarkSet } from "./mark-set.ts";

/**
 * A mark in all the spellings that models have for it. `signed` ones have the family's sign and occur in no other text;
 * `plain` ones lack it, so that a value may contain them as well. The mark as the template writes it is `signed`.
 */
export type Mark = { readonly signed: readonly string[]; readonly plain: readonly string[] };

/** The character that breaks a spelling: invisible, not white space, and joining the words beside it. */
export const JOINER = "\u2060";

/** A mark as it stands in a prompt that keeps callers from writing it. */
export const brokenMark = (mark: string) => mark.slice(0, 1) + JOINER + mark.slice(1);

/** The parts of a mark: `lead`, a bracket, `slash`, `sign`, `name` and `rest`, as in `</｜DSML｜parameter>`. */
type Parts = {
  readonly lead: string;
  readonly slash: string;
  readonly sign: string;
  readonly name: string;
  readonly rest: string;
};

const TAG = /^(.*)<(\/?)((?:[^\w\s<>/="]?\w+[^\w\s<>/="] ?)?)(\w+)([ =>].*)$/s;

/** A sign of a word between bars. */
const BARRED = /^([｜|])(\w+)\1 ?$/;
const BARS = ["｜", "｜｜", "|", "||"];

/** Names that models give the mark around calls, whatever their template calls it. */
const OUTER_NAMES = ["tool_calls", "tool_call", "toolcalls", "toolcall", "function_calls", "calls", "tool"];

/** Names of closing marks that models write behind a call besides. */
const CLOSER_NAMES = [...OUTER_NAMES, "function_call", "function_invocation", "function", "invoke", "parameter"];

function partsOf(mark: string): Parts | undefined {
  const found = TAG.exec(mark);
  if (found === null) return undefined;
  const [, lead = "", slash = "", sign = "", name = "", rest = ""] = found;
  return { lead, slash, sign, name, rest };
}

/** The spellings of a family's marks, by the sign and the lead that they have in common. */
export class MarkSpellings {
  readonly #lead: string;
  readonly #signs: readonly string[];
  readonly #own: ReadonlySet<string>;

  /** `marks` are all marks of the family: none is a spelling of another one. */
  constructor(marks: readonly string[]) {
    const parts = marks.flatMap((mark) => partsOf(mark.trim()) ?? []);
    this.#lead = parts.find(({ lead }) => lead !== "")?.lead ?? "";
    this.#signs = signsOf(parts.find(({ sign }) => sign !== "")?.sign ?? "");
    this.#own = new Set(marks.map((mark) => mark.trim()));
  }

  get hasSign(): boolean {
    return this.#lead !== "" || this.#signs.length > 0;
  }

  /** White space around a mark is the template's. */
  of(written: string): Mark {
    const mark = written.trim();
    const parts = partsOf(mark);
    if (parts === undefined) return this.#mark(mark, mark === "" ? [] : this.#singular(mark), []);
    const plain = { ...parts, lead: "", sign: "" };
    // A closing mark without its last bracket, or with two slashes.
    const rests = parts.slash !== "" && parts.rest === ">" ? ["\n", "/>"] : [];
    const others = rests.flatMap((rest) => [...this.#signed({ ...parts, rest }), tagOf({ ...plain, rest })]);
    return this.#mark(mark, this.#signed(parts), [...(this.hasSign ? [tagOf(plain)] : []), ...others]);
  }

  /** The spellings of the mark before all calls, also under another name, or without its last bracket in its line. */
  outer(written: string): Mark {
    const mark = written.trim();
    const parts = partsOf(mark);
    if (parts === undefined || parts.rest !== ">") return this.of(mark);
    const named = [parts.name, ...OUTER_NAMES].flatMap((name) => [
      { ...parts, name },
      { ...parts, name, rest: "\n" },
    ]);
    const plain = named.map((each) => tagOf({ ...each, lead: "", sign: "" }));
    return this.#mark(
      mark,
      this.hasSign ? named.flatMap((each) => this.#signed(each)) : plain,
      this.hasSign ? plain : [],
    );
  }

  /** The closing marks that stand behind a call without an opening one. */
  strayClosers(marks: readonly string[]): Mark {
    const own = marks.filter((mark) => mark !== "").map((mark) => this.of(mark));
    if (own.length === 0) return { signed: [], plain: [] };
    const named = CLOSER_NAMES.map((name) => ({ lead: this.#lead, slash: "/", sign: "", name, rest: ">" }));
    const plain = named.map((each) => tagOf({ ...each, lead: "" }));
    const signed = this.hasSign ? named.flatMap((each) => this.#signed(each)) : [];
    return {
      signed: [...own.flatMap((each) => each.signed), ...signed],
      plain: [...own.flatMap((each) => each.plain), ...plain],
    };
  }

  #mark(mark: string, signed: readonly string[], plain: readonly string[]): Mark {
    const others = (spellings: readonly string[]) => spellings.filter((each) => !this.#own.has(each));
    return { signed: mark === "" ? [] : [mark, ...others(signed)], plain: others(plain) };
  }

  #signed(parts: Parts): readonly string[] {
    const lead = this.#lead;
    const signs = lead === "" ? this.#signs : ["", ...this.#signs];
    const tags = signs.map((sign) => tagOf({ ...parts, lead, sign }));
    return lead === "" ? tags : [...tags, lead + parts.slash + parts.name + parts.rest];
  }

  /** Models write `tool_call` for `tool_calls`, unless another mark has that name. */
  #singular(mark: string): readonly string[] {
    const singular = mark.replace("calls", "call");
    return [...this.#own].some((own) => own.includes(singular)) ? [] : [singular];
  }
}

const tagOf = ({ lead, slash, sign, name, rest }: Parts) => `${lead}<${slash}${sign}${name}${rest}`;

function signsOf(sign: string): readonly string[] {
  const word = BARRED.exec(sign)?.[2];
  if (word === undefined) return sign === "" ? [] : [sign];
  return BARS.flatMap((bar) => [`${bar}${word}${bar}`, `${bar}${word}${bar} `]);
}

export const allOf = (...marks: readonly Mark[]) =>
  new MarkSet(...marks.map(({ signed }) => signed), ...marks.map(({ plain }) => plain));

export const isOf = (text: string, ...marks: readonly Mark[]) =>
  marks.some(({ signed, plain }) => signed.includes(text) || plain.includes(text));
