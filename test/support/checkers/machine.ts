/**
 * The error for a stream that breaks its format; the message names the rule and the position, and never quotes more of
 * the text than a kind's name.
 */
export class StreamFault extends Error {
  override readonly name = "StreamFault";
}

/** Throws `StreamFault` unless `condition` holds. `rule` describes the expectation. */
export function must(condition: boolean, rule: string): asserts condition {
  if (!condition) throw new StreamFault(rule);
}

/** The kinds of frames that may come next in every state, and the next state of each. */
export type Transitions<State extends string, Kind extends string> = Readonly<
  Record<State, Readonly<Partial<Record<Kind, NoInfer<State>>>>>
>;

export function stepsOf(table: Readonly<Record<string, Readonly<Record<string, string>>>>): string[] {
  return Object.entries(table).flatMap(([state, row]) => Object.keys(row).map((kind) => `${state} + ${kind}`));
}

/** Walks a table and records the steps taken. */
export class Machine<State extends string, Kind extends string> {
  readonly #table: Transitions<State, Kind>;
  readonly #taken: Set<string>;
  #state: State;

  /** Starts in the state `start`. `taken` collects the steps, of several streams if it is shared. */
  constructor(table: Transitions<State, Kind>, start: State, taken: Set<string>) {
    this.#table = table;
    this.#state = start;
    this.#taken = taken;
  }

  get state(): State {
    return this.#state;
  }

  /** Takes a step. Throws `StreamFault` when `kind` is not allowed now. */
  step(kind: Kind): void {
    const next = this.#table[this.#state][kind];
    must(next !== undefined, `'${kind}' may not come in '${this.#state}'`);
    this.#taken.add(`${this.#state} + ${kind}`);
    this.#state = next;
  }
}
