import { inject } from "vitest";
import type { Size } from "../vitest.config.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The size that the lane of the running test has. */
    readonly size: Size;
  }
}

/** The numbers of one thing that a test does, by the size of its lane. */
export type Sizes = {
  /** The number in `npm test`. */
  readonly quick: number;
  /** The number in `npm run test:rest`; that of `quick` where absent. */
  readonly exhaustive?: number;
  /** The number with FULL=1; that of `exhaustive` where absent. */
  readonly promised?: number;
};

/** Returns the number that the running lane wants. */
export function sizeOf({ quick, exhaustive = quick, promised = exhaustive }: Sizes): number {
  return { quick, exhaustive, promised }[inject("size")];
}
