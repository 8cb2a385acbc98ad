import type { Value } from "./library.ts";
import { isBoolean, isNumber, isText, isTrue, text } from "./values.ts";

/** The arguments of a call, of a filter or of a test, which are asked for by their place or their name. */
export class CallArguments {
  readonly #placed: readonly Value[];
  readonly #named: ReadonlyMap<string, Value>;

  constructor(placed: readonly Value[] = [], named: ReadonlyMap<string, Value> = new Map()) {
    this.#placed = placed;
    this.#named = named;
  }

  /** Reads the arguments of a function, to which named ones come as the last one. */
  static of(args: readonly Value[]): CallArguments {
    const last = args.at(-1);
    if (last?.type !== "KeywordArgumentsValue") return new CallArguments(args);
    return new CallArguments(args.slice(0, -1), last.value as ReadonlyMap<string, Value>);
  }

  /** How many arguments have a place. */
  get count(): number {
    return this.#placed.length;
  }

  /** Returns the argument at a place or of a name; undefined where it is not given. */
  get(place: number, name = ""): Value | undefined {
    return this.#placed[place] ?? this.#named.get(name);
  }

  /** Returns an argument that has to be given. Throws where it is not. */
  need(place: number, name = ""): Value {
    const value = this.get(place, name);
    if (!value) throw new Error(`the argument ${name || place + 1} is missing`);
    return value;
  }

  /** Returns an argument that is a text. Throws for another. */
  text(place: number, name: string, otherwise: string): string {
    const value = this.get(place, name) ?? text(otherwise);
    if (!isText(value)) throw new Error(`the argument ${name || place + 1} has to be a text`);
    return value.value;
  }

  /** Returns an argument that is a number. Throws for another. */
  number(place: number, name: string, otherwise: number): number {
    const value = this.get(place, name);
    if (!value) return otherwise;
    if (!isNumber(value) && !isBoolean(value)) throw new Error(`the argument ${name || place + 1} has to be a number`);
    return Number(value.value);
  }

  /** Returns whether an argument is given and counts as true. */
  flag(place: number, name: string): boolean {
    const value = this.get(place, name);
    return value !== undefined && isTrue(value);
  }

  /** Returns the arguments from a place on. */
  from(place: number): CallArguments {
    return new CallArguments(this.#placed.slice(place), this.#named);
  }
}
