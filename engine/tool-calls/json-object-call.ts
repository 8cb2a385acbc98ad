import { literal, sequence } from "../gbnf/gbnf.ts";
import type { CallMarkup } from "./tool-call-form.ts";

/** The key that most templates give the arguments of a call. */
export const ARGUMENTS_KEY = "arguments";
/** The keys under which models write the arguments of a call, whatever their template says. */
export const ARGUMENTS_KEYS: readonly string[] = [ARGUMENTS_KEY, "parameters"];

/** Returns how a grammar writes a call that is an object, `{"name": …, argumentsKey: {…}}`, with `end` behind it. */
export function jsonObjectCall(argumentsKey: string, end: string): Pick<CallMarkup, "begins" | "rest"> {
  return {
    begins: () => "{",
    rest: (name, args) =>
      sequence(literal(`"name": ${JSON.stringify(name)}, ${JSON.stringify(argumentsKey)}: `), args, literal(`}${end}`)),
  };
}
