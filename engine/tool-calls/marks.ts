import * as z from "zod";
import type { CallMarkup } from "./tool-call-form.ts";

export const mark = z.string().min(1);

export const text = z.string().default("");

export function openersOf(...marks: readonly string[]): readonly string[] {
  return marks.map((each) => each.trim()).filter((each) => each !== "");
}

export const spaceBehind = (of: string) => of.slice(of.trimEnd().length);

export const spaceBefore = (of: string) => of.slice(0, of.length - of.trimStart().length);

type Opening = Pick<CallMarkup, "open" | "behindOpen" | "otherOpen" | "behindOtherOpen" | "opensAtBrace">;

/** Trailing white space is separated from a mark: after a mark that is a token, it must still be generated. */
export function opening(open: string, behind: string, other = ""): Opening {
  return {
    open: open.trimEnd(),
    behindOpen: spaceBehind(open) + behind,
    otherOpen: other.trimEnd(),
    behindOtherOpen: spaceBehind(other),
    opensAtBrace: false,
  };
}
