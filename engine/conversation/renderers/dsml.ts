import { type TemplateMessage, templateJson } from "../history/template-messages.ts";
import { refusal } from "./renderer.ts";

/** Marks that all DeepSeek models have. */
export const BEGIN = "<｜begin▁of▁sentence｜>";
export const END = "<｜end▁of▁sentence｜>";
export const USER = "<｜User｜>";
export const ASSISTANT = "<｜Assistant｜>";
export const THINK = { open: "<think>", close: "</think>" } as const;

/** The names of the elements of calls; those of DeepSeek-V4.1 begin with a space. */
export type DsmlNames = { readonly calls: string; readonly invoke: string; readonly parameter: string };

/** Writes an element with its line breaks. */
export function dsml(name: string, attributes: string, content: string): string {
  return `<｜DSML｜${name}${attributes}>${content}</｜DSML｜${name}>`;
}

/** Returns the example of calls in the text about tools. `named` are the words for the names of two tools. */
export function dsmlExample({ calls, invoke, parameter }: DsmlNames, named: readonly [string, string]): string {
  const value = dsml(parameter, ' name="$PARAMETER_NAME" string="true|false"', "$PARAMETER_VALUE");
  const first = dsml(invoke, ` name="$${named[0]}"`, `\n${value}\n...\n`);
  const second = dsml(invoke, ` name="$${named[1]}"`, "\n...\n");
  return dsml(calls, "", `\n${first}\n${second}\n`);
}

/** Returns the calls of a turn; "" for none. Throws for arguments that are no object. */
export function dsmlCalls({ tool_calls: called = [] }: TemplateMessage, names: DsmlNames): string {
  if (called.length === 0) return "";
  const written = called.map(({ function: { name, arguments: given } }) => {
    if (typeof given === "string") throw refusal("The arguments of a call are no object.");
    const parameters = [...given].map(([key, value]) => {
      const isText = typeof value === "string";
      return dsml(names.parameter, ` name="${key}" string="${isText}"`, isText ? value : templateJson(value));
    });
    return dsml(names.invoke, ` name="${name}"`, `\n${parameters.join("\n")}\n`);
  });
  return `\n\n${dsml(names.calls, "", `\n${written.join("\n")}\n`)}`;
}
