import type { Value } from "./library.ts";
import { isBoolean, isNumber, isText, isTrue, text } from "./values.ts";

export class CallArguments {
  readonly #placed: readonly Value[];
  readonly #named: ReadonlyMap<string, Value>;

  constructor(placed: readonly Value[] = [], named: ReadonlyMap<string, Value> = new Map()) {
    this.#placed = placed;
    this.#named = named;
  }

  /** Reads the arguments of a function; the library passes named ones as the last argument. */
  static of(args: readonly Value[]): CallArguments {
    const last = args.at(-1);
    if (last?.type !== "KeywordArgumentsValue") return new CallArguments(args);
    return new CallArguments(args.slice(0, -1), last.value as ReadonlyMap<string, Value>);
  }

  get count(): number {
    return this.#placed.length;
  }

  get(place: number, name = ""): Value | undefined {
    return this.#placed[place] ?? this.#named.get(name);
  }

  need(place: number, name = ""): Value {
    const value = this.get(place, name);
    if (!value) throw new Error(`the argument ${name || place + 1} is missing`);
    return value;
  }

  text(place: number, name: string, otherwise: string): string {
    const value = this.get(place, name) ?? text(otherwise);
    if (!isText(value)) throw new Error(`the argument ${name || place + 1} has to be a text`);
    return value.value;
  }

  number(place: number, name: string, otherwise: number): number {
    const value = this.get(place, name);
    if (!value) return otherwise;
    if (!isNumber(value) && !isBoolean(value)) throw new Error(`the argument ${name || place + 1} has to be a number`);
    return Number(value.value);
  }

  flag(place: number, name: string): boolean {
    const value = this.get(place, name);
    return value !== undefined && isTrue(value);
  }

  from(place: number): CallArguments {
    return new CallArguments(this.#placed.slice(place), this.#named);
  }
}
