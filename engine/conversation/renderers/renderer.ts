import type { TemplateMessage, TemplateTool, TemplateVariables } from "../history/template-messages.ts";
import { RaisedByTemplate } from "../jinja/template.ts";

/** A conversation in the form of the chat completions API, of which a renderer writes the prompt. */
export type RendererInput = {
  readonly messages: readonly TemplateMessage[];
  readonly tools: readonly TemplateTool[];
  /** What switches reasoning and its effort. */
  readonly variables: TemplateVariables;
  /** Whether the prompt ends with the beginning of the model's turn. */
  readonly opensTurn: boolean;
  /** Returns the mark in front of a message: "" where none is wanted. */
  readonly mark: (message: number) => string;
  /** Encodes a text between two quotes; `quote` adds one character before and after. */
  readonly quoted: (text: string, quote: (text: string) => string) => string;
};

/** Writes the prompt of a conversation. Throws what `ChatTemplate` takes for a refusal. */
export type Renderer = (input: RendererInput) => string;

/** Returns the refusal of a conversation that the family's own code refuses, too. */
export function refusal(words: string): RaisedByTemplate {
  return new RaisedByTemplate(words);
}
