import type * as z from "zod";
import type { Gbnf } from "../gbnf/gbnf.ts";
import type { ArgumentTypes } from "./readers/argument-types.ts";
import type { CallReader } from "./readers/call-reader.ts";

/** The tools that an output may call, as far as the reading of a call depends on them. */
export type CallableTools = {
  /** The names of the tools. */
  readonly names: ReadonlySet<string>;
  /** The types that the tools' schemas allow: models write arguments as text, or in quotation marks that are wrong. */
  readonly argumentTypes: ArgumentTypes;
};

/** The rules of how calls are found among other text, and what reads one. */
export type CallReading = {
  /** Marks that begin a call, or a group of calls. */
  readonly openers: readonly string[];
  /** Whether a brace at the start of the text begins a call too. */
  readonly opensAtBrace: boolean;
  /** The mark between two calls of a group; "" where calls stand alone. */
  readonly next: string;
  /** The mark at the end of a group; "" where a group has none. */
  readonly close: string;
  /** Marks that models write in the place of `close` by mistake. Absent: none are known. */
  readonly otherCloses?: readonly string[];
  /**
   * Marks around a group that are no text wherever they stand, as a model that writes them has a token for each: one
   * that no call belongs to is dropped. Absent: none are known.
   */
  readonly strays?: readonly string[];
  /** White space that the template writes before the first mark of the calls and behind the last. */
  readonly separator: string;
  /**
   * Makes a reader for the call behind `mark`: one of `openers`, `next`, or "" for a brace (which the reader takes
   * itself).
   */
  readonly newReader: (mark: string) => CallReader;
};

/** The rules of how the parameters of a call are written where they are text between tags. */
export type ParameterTags = {
  /** The text that stands before a key. */
  readonly open: string;
  /** Gives a key as it is written. */
  readonly key: (key: string) => string;
  /**
   * Gives the texts of which one stands between a key and its value, in which the kind of the value may be told, and its
   * type where `types` are those that it may have.
   */
  readonly keyEnds: (kind: "text" | "json", types?: ReadonlySet<string>) => readonly string[];
  /** Gives the text that stands behind the value of a key: the closing mark with the white space that belongs to it. */
  readonly after: (key: string, kind: "text" | "json") => string;
  /** The mark that no value of text may hold, as it would end there. */
  readonly close: string;
  /** Whether `keyEnds` tells the kind of a value: then text is used for nothing but strings. */
  readonly tellsKind: boolean;
  /**
   * The mark that every tag begins with, where a value may be made of parameters itself. Absent: values are text or
   * JSON.
   */
  readonly nested?: string;
  /** The text between two parameters. Absent: none stands there. */
  readonly between?: string;
  /** Characters that no key has beside the first ones of `keyEnds`. Absent: it may have any. */
  readonly notInKeys?: string;
};

/** The markup that a grammar writes around the arguments of calls. */
export type CallMarkup = {
  /** The mark with which the calls begin, without white space at its end; "" where none begins them. */
  readonly open: string;
  /** The text between `open` and the first call. */
  readonly behindOpen: string;
  /** Marks that models write in the place of `open` by mistake. Absent: none are known. */
  readonly otherOpens?: readonly string[];
  /** A mark that begins calls as well, for models that forget `open`; "" where there is none. */
  readonly otherOpen: string;
  /** The text between `otherOpen` and the first call. */
  readonly behindOtherOpen: string;
  /** More marks that begin calls, and how a first call goes on behind each. Absent: none are known. */
  readonly otherCalls?: readonly { readonly mark: string; readonly call: (name: string, args: Gbnf) => Gbnf }[];
  /** Whether a brace at the start of the text begins calls too. */
  readonly opensAtBrace: boolean;
  /** Gives the text with which a call of that tool begins, as far as it tells a call from a mark that is mentioned. */
  readonly begins: (name: string) => string;
  /** Writes the rest of a call that begins so. Its arguments are JSON, or, where there are `tags`, parameters between them. */
  readonly rest: (name: string, args: Gbnf) => Gbnf;
  /** The rules of how the parameters between tags are written. Absent where arguments are JSON. */
  readonly tags?: ParameterTags;
  /** The text between two calls. */
  readonly between: string;
  /** The text behind the last call. */
  readonly close: string;
};

/** The facts about a model's marks that can be known before it writes anything. */
export type KnownMarks = {
  /** The chat template of the model, Jinja source. */
  readonly template: string;
  /** Tells whether the model can write a mark: it stands in the template or among the tokens. */
  readonly isKnown: (mark: string) => boolean;
};

/** The functions of one form of call, given the marks that a family of models uses for it. */
export type CallBehaviour<Markers> = {
  /** Gives the marks as far as a model can know them; undefined where it cannot call tools with them. */
  readonly usable: (markers: Markers, model: KnownMarks) => Markers | undefined;
  /** Says how calls are read out of an output; undefined where only the engine's own parser reads them. */
  readonly reading: (markers: Markers, tools: CallableTools) => CallReading | undefined;
  /**
   * Says how a grammar writes calls; undefined where only the engine's own parser reads them.
   *
   * Of a call that was asked for, and of one that the model makes of a strict tool, the grammar holds the marks, the
   * name and the arguments. Where arguments are JSON it holds all of their schema but what is refused for strict tools;
   * where they are text between tags, the declared parameters in their order, the required ones, and each value by its
   * schema, of which a value that is a string keeps to `enum`, `const` and `format` only.
   */
  readonly markup: (markers: Markers) => CallMarkup | undefined;
};

/** A way in which chat templates write tool calls: the marks that a profile names, and all that is done with them. */
export type ToolCallForm<Schema extends z.ZodObject> = CallBehaviour<Readonly<z.output<Schema>>> & {
  /**
   * The schema of the marks in a profile. Its literal `form` is the name of the form; a field is left out where a
   * template writes nothing.
   */
  readonly schema: Schema;
};

/** Declares a form of call. The function is there for its types alone. */
export function toolCallForm<Schema extends z.ZodObject>(form: ToolCallForm<Schema>): ToolCallForm<Schema> {
  return form;
}
