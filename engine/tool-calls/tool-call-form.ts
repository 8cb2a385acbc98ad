import type * as z from "zod";
import type { Gbnf } from "../gbnf/gbnf.ts";
import type { ArgumentTypes } from "./readers/argument-types.ts";
import type { CallReader } from "./readers/call-reader.ts";

export type CallableTools = {
  readonly names: ReadonlySet<string>;
  readonly argumentTypes: ArgumentTypes;
};

export type CallReading = {
  readonly openers: readonly string[];
  /** Whether a brace at the start of the text also begins a call. */
  readonly opensAtBrace: boolean;
  readonly next: string;
  readonly close: string;
  readonly otherCloses?: readonly string[];
  /** Marks that models have tokens for: one without a call is dropped, never text. */
  readonly strays?: readonly string[];
  readonly separator: string;
  /** `mark`: one of `openers`, `next`, or "" for a brace, which the reader consumes. */
  readonly newReader: (mark: string) => CallReader;
};

export type ParameterTags = {
  readonly open: string;
  readonly key: (key: string) => string;
  /** The possible texts between a key and its value, by the value's kind and `types`. */
  readonly keyEnds: (kind: "text" | "json", types?: ReadonlySet<string>) => readonly string[];
  readonly after: (key: string, kind: "text" | "json") => string;
  readonly close: string;
  /** Whether `keyEnds` depends on the kind of a value; text is then used for strings only. */
  readonly tellsKind: boolean;
  /** The mark that begins every tag, if a value may consist of parameters. Absent: values are text or JSON. */
  readonly nested?: string;
  readonly between?: string;
  readonly notInKeys?: string;
};

export type CallMarkup = {
  readonly open: string;
  readonly behindOpen: string;
  readonly otherOpens?: readonly string[];
  /** A further mark that begins calls, for models that omit `open`; "" for none. */
  readonly otherOpen: string;
  readonly behindOtherOpen: string;
  readonly otherCalls?: readonly { readonly mark: string; readonly call: (name: string, args: Gbnf) => Gbnf }[];
  readonly opensAtBrace: boolean;
  /** Returns the leading text of a call of that tool that distinguishes it from a mentioned mark. */
  readonly begins: (name: string) => string;
  /** Returns the grammar of the rest of such a call. Arguments are JSON or, with `tags`, parameters between tags. */
  readonly rest: (name: string, args: Gbnf) => Gbnf;
  readonly tags?: ParameterTags;
  readonly between: string;
  readonly close: string;
};

export type KnownMarks = {
  readonly template: string;
  readonly isKnown: (mark: string) => boolean;
};

export type CallBehaviour<Markers> = {
  /** Returns the marks that the model can write; undefined if it cannot call tools with them. */
  readonly usable: (markers: Markers, model: KnownMarks) => Markers | undefined;
  /** Returns how calls are read from an output; undefined if only the engine's own parser reads them. */
  readonly reading: (markers: Markers, tools: CallableTools) => CallReading | undefined;
  /** How a grammar writes calls; undefined if only the engine's own parser reads them. */
  readonly markup: (markers: Markers) => CallMarkup | undefined;
};

export type ToolCallForm<Schema extends z.ZodObject> = CallBehaviour<Readonly<z.output<Schema>>> & {
  /** The literal `form` is the name of the form; fields without text in the template are omitted. */
  readonly schema: Schema;
};

export function toolCallForm<Schema extends z.ZodObject>(form: ToolCallForm<Schema>): ToolCallForm<Schema> {
  return form;
}
