import * as z from "zod";
import type { CallMarkup } from "./tool-call-form.ts";

/** Checks a mark that a profile has to name. */
export const mark = z.string().min(1);

/** Checks a text that a profile may leave out where its template writes none. */
export const text = z.string().default("");

/** Returns the marks without white space at their ends; those of which nothing is left are dropped. */
export function openersOf(...marks: readonly string[]): readonly string[] {
  return marks.map((each) => each.trim()).filter((each) => each !== "");
}

/** Returns the white space at the end of a mark. */
export const spaceBehind = (of: string) => of.slice(of.trimEnd().length);

/** Returns the white space at the start of a mark. */
export const spaceBefore = (of: string) => of.slice(0, of.length - of.trimStart().length);

/** The marks with which a grammar lets calls begin. */
type Opening = Pick<CallMarkup, "open" | "behindOpen" | "otherOpen" | "behindOtherOpen" | "opensAtBrace">;

/**
 * Returns how calls begin that start with `open` and go on with `behind`, or start with `other` at once. White space at
 * the end of a mark is not part of it: where the mark is a token, it has still to be written.
 */
export function opening(open: string, behind: string, other = ""): Opening {
  return {
    open: open.trimEnd(),
    behindOpen: spaceBehind(open) + behind,
    otherOpen: other.trimEnd(),
    behindOtherOpen: spaceBehind(other),
    opensAtBrace: false,
  };
}
