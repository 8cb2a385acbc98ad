import type { ArgumentPath, ArgumentTypes, JsonType } from "./argument-types.ts";
import { isSpace } from "./json-scanner.ts";
import { type MarkSet, markAt } from "./mark-set.ts";

/** The length of the longest suffix of `text` that is a proper prefix of one of `wanted`, in UTF-16 units. */
export function heldSuffixLength(text: string, wanted: readonly string[]): number {
  let longest = 0;
  for (const candidate of wanted) {
    const first = candidate.charCodeAt(0);
    for (let length = Math.min(candidate.length - 1, text.length); length > longest; length -= 1) {
      // Most positions are no prefix; the comparison of one unit avoids a copy.
      if (text.charCodeAt(text.length - length) !== first) continue;
      if (candidate.startsWith(text.slice(text.length - length))) longest = length;
    }
  }
  return longest;
}

export type CallProgress = {
  /** The UTF-16 units of the piece that belong to the call; the rest must be passed again with more text. */
  readonly consumed: number;
  /** The JSON text of the arguments to send now. Empty until the name is known. */
  readonly arguments: string;
  readonly state: "open" | "closed" | "malformed";
};

/** A step of a reader, up to `at`: it takes another one (`open`), needs more text (`stop`), or the call is over. */
export type Step = { readonly at: number; readonly state: CallProgress["state"] | "stop" };

export type CallableTools = {
  readonly names: ReadonlySet<string>;
  readonly argumentTypes: ArgumentTypes;
  /** Whether calls have the node's own form, in which models write marks as they stand in callers' texts, too. */
  readonly areGeneric?: boolean;
};

/** The marks between the one that begins a group and its first call. */
export type CallLead = {
  /** The mark of a call. */
  readonly next: MarkSet;
  /** Marks that begin a group, which models write again. */
  readonly outer: MarkSet;
  /** Marks that end a group, which has no call then. */
  readonly close: MarkSet;
};

/** Reads one call in the form of its family, from the character after its opening mark to its closing mark. */
export abstract class CallReader {
  readonly #tools: CallableTools;
  readonly #lead: CallLead | undefined;
  /** Whether more than the mark that begins a group has been read. */
  isPastLead: boolean;
  /** The id in the model's output; undefined if it wrote none, or before the name is known. */
  callId: string | undefined;
  protected name: string | undefined;

  /** `lead`: the marks that come first, after white space, as before the first call of a group. */
  constructor(tools: CallableTools, lead?: CallLead) {
    this.#tools = tools;
    this.#lead = lead;
    this.isPastLead = lead === undefined;
  }

  get startedName(): string | undefined {
    return this.isStarted && !this.nameIsUnknown ? this.name : undefined;
  }

  get nameIsUnknown(): boolean {
    return this.name !== undefined && !this.#tools.names.has(this.name);
  }

  /** Whether the arguments sent so far are a complete JSON object. */
  abstract get argumentsAreWhole(): boolean;

  /** Returns the held JSON text of the arguments if the output ends inside the call with `rest`. */
  abstract flush(rest: string): string;

  push(text: string): CallProgress {
    let step: Step = { at: 0, state: "open" };
    while (step.state === "open") {
      step = this.#lead && !this.isPastLead ? this.#readLead(text, step.at, this.#lead) : this.step(text, step.at);
    }
    const state = step.state === "stop" ? "open" : step.state;
    const written = this.written(state);
    return { consumed: step.at, arguments: this.startedName === undefined ? "" : written, state };
  }

  protected abstract get isStarted(): boolean;

  protected abstract step(text: string, at: number): Step;

  /** Takes what of the arguments can be sent now, after steps that ended with `state`. */
  protected abstract written(state: CallProgress["state"]): string;

  #readLead(text: string, from: number, { next, outer, close }: CallLead): Step {
    const at = skipSpace(text, from);
    const found = markAt(text, at, [...next.marks, ...outer.marks, ...close.marks]);
    if (found === "partly") return { at: from, state: "stop" };
    if (found === undefined) {
      const step = this.withoutMark(text, at);
      this.isPastLead = step.state === "open";
      return step.state === "open" ? step : { at: from, state: step.state };
    }
    const behind = at + found.mark.length;
    if (close.has(found.mark)) return { at: behind, state: "closed" };
    this.isPastLead = next.has(found.mark);
    return { at: behind, state: "open" };
  }

  /** Reads what a form takes in the place of the mark of a call. */
  protected withoutMark(_text: string, at: number): Step {
    return { at, state: "malformed" };
  }

  protected isTool(name: string): boolean {
    return this.#tools.names.has(name);
  }

  protected passed(text: string, at: number, marks: readonly string[]): Step {
    const found = markAt(text, at, marks);
    if (found === undefined) return { at, state: "malformed" };
    return found === "partly" ? { at, state: "stop" } : { at: at + found.mark.length, state: "open" };
  }

  protected typesAt(path: ArgumentPath): ReadonlySet<JsonType> | undefined {
    return this.#tools.argumentTypes(this.name ?? "", path);
  }

  /** The arguments that the schema of the tool declares; none if unknown. */
  protected get declared(): ReadonlySet<string> {
    return this.#tools.argumentTypes.declared?.(this.name ?? "") ?? new Set();
  }
}

export const MAX_NAME = 256;

export function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && isSpace(text.charAt(at))) at += 1;
  return at;
}
