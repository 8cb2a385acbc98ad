import { literal, sequence } from "../gbnf/gbnf.ts";
import type { CallMarkup } from "./tool-call-form.ts";

export const ARGUMENTS_KEY = "arguments";
/** The keys that models write for the arguments, whatever their template uses. */
export const ARGUMENTS_KEYS: readonly string[] = [ARGUMENTS_KEY, "parameters"];

/** Returns the grammar of a call that is an object, `{"name": …, argumentsKey: {…}}`, followed by `end`. */
export function jsonObjectCall(argumentsKey: string, end: string): Pick<CallMarkup, "begins" | "rest"> {
  return {
    begins: () => "{",
    rest: (name, args) =>
      sequence(literal(`"name": ${JSON.stringify(name)}, ${JSON.stringify(argumentsKey)}: `), args, literal(`}${end}`)),
  };
}
