import type * as z from "zod";
import type { Gbnf } from "../gbnf/gbnf.ts";
import type { ArgumentTypes } from "./readers/argument-types.ts";
import type { CallReader } from "./readers/call-reader.ts";

export type CallableTools = {
  readonly names: ReadonlySet<string>;
  /** The schema types of arguments: models write arguments as text, or with wrong quotation marks. */
  readonly argumentTypes: ArgumentTypes;
};

/** How calls are found in text, and the reader of a call. */
export type CallReading = {
  /** Marks that begin a call or a group of calls. */
  readonly openers: readonly string[];
  /** Whether a brace at the start of the text also begins a call. */
  readonly opensAtBrace: boolean;
  /** The mark between two calls of a group; "" if calls stand alone. */
  readonly next: string;
  /** The mark at the end of a group; "" for none. */
  readonly close: string;
  /** Marks that models write instead of `close`. Absent: none. */
  readonly otherCloses?: readonly string[];
  /**
   * Marks around a group that are never text, because models have tokens for them: one without a call is dropped.
   * Absent: none.
   */
  readonly strays?: readonly string[];
  /** White space that the template writes before the first and after the last mark of calls. */
  readonly separator: string;
  /**
   * Creates a reader for the call after `mark`: one of `openers`, `next`, or "" for a brace (which the reader
   * consumes).
   */
  readonly newReader: (mark: string) => CallReader;
};

/** The form of parameters written as text between tags. */
export type ParameterTags = {
  readonly open: string;
  readonly key: (key: string) => string;
  /**
   * Returns the possible texts between a key and its value. They may depend on the kind of the value and on its
   * possible `types`.
   */
  readonly keyEnds: (kind: "text" | "json", types?: ReadonlySet<string>) => readonly string[];
  /** Returns the text after the value of a key: the closing mark with its white space. */
  readonly after: (key: string, kind: "text" | "json") => string;
  /** The closing mark, which no text value may contain. */
  readonly close: string;
  /** Whether `keyEnds` depends on the kind of a value; text is then used for strings only. */
  readonly tellsKind: boolean;
  /** The mark that begins every tag, if a value may consist of parameters. Absent: values are text or JSON. */
  readonly nested?: string;
  /** The text between two parameters. Absent: none. */
  readonly between?: string;
  /** Characters that keys cannot contain, beside the first ones of `keyEnds`. Absent: none. */
  readonly notInKeys?: string;
};

export type CallMarkup = {
  /** The mark that begins the calls, without trailing white space; "" for none. */
  readonly open: string;
  readonly behindOpen: string;
  /** Marks that models write instead of `open`. Absent: none. */
  readonly otherOpens?: readonly string[];
  /** A further mark that begins calls, for models that omit `open`; "" for none. */
  readonly otherOpen: string;
  readonly behindOtherOpen: string;
  /** Further marks that begin calls, with the grammar of the first call after each. Absent: none. */
  readonly otherCalls?: readonly { readonly mark: string; readonly call: (name: string, args: Gbnf) => Gbnf }[];
  /** Whether a brace at the start of the text also begins calls. */
  readonly opensAtBrace: boolean;
  /** Returns the leading text of a call of that tool that distinguishes it from a mentioned mark. */
  readonly begins: (name: string) => string;
  /** Returns the grammar of the rest of such a call. Arguments are JSON or, with `tags`, parameters between tags. */
  readonly rest: (name: string, args: Gbnf) => Gbnf;
  /** The form of parameters between tags. Absent: arguments are JSON. */
  readonly tags?: ParameterTags;
  readonly between: string;
  readonly close: string;
};

export type KnownMarks = {
  readonly template: string;
  /** Returns whether the model can write a mark: it occurs in the template or is a token. */
  readonly isKnown: (mark: string) => boolean;
};

/** The functions of a form of calls; `Markers` are the marks of a family. */
export type CallBehaviour<Markers> = {
  /** Returns the marks that the model can write; undefined if it cannot call tools with them. */
  readonly usable: (markers: Markers, model: KnownMarks) => Markers | undefined;
  /** Returns how calls are read from an output; undefined if only the engine's own parser reads them. */
  readonly reading: (markers: Markers, tools: CallableTools) => CallReading | undefined;
  /**
   * Returns how a grammar writes calls; undefined if only the engine's own parser reads them. For mandatory calls and
   * calls of strict tools, the grammar enforces marks, name and arguments. JSON arguments follow the whole schema,
   * except for keywords that strict tools may not use. Parameters between tags are the declared ones in order, required
   * ones included, each value by its schema; string values follow `enum`, `const` and `format` only.
   */
  readonly markup: (markers: Markers) => CallMarkup | undefined;
};

/** A form of tool calls in chat templates: the marks in a profile, and all functions on them. */
export type ToolCallForm<Schema extends z.ZodObject> = CallBehaviour<Readonly<z.output<Schema>>> & {
  /**
   * The schema of the marks in a profile. The literal `form` is the name of the form; fields without text in the
   * template are omitted.
   */
  readonly schema: Schema;
};

/** Declares a form of calls; exists for type inference only. */
export function toolCallForm<Schema extends z.ZodObject>(form: ToolCallForm<Schema>): ToolCallForm<Schema> {
  return form;
}
