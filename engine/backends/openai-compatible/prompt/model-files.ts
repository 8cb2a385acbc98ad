import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { asCount, asFields, asList, asText, parseFields } from "../http/json-fields.ts";

/** An added token of a `tokenizer.json`. */
export type AddedToken = {
  readonly id: number;
  readonly text: string;
  /** Whether a prompt may be cut before the token without changing any: it strips no white space there, and stands as it is written. */
  readonly cuts: boolean;
};

/** What renders a model's prompts, as published beside its `tokenizer.json`. */
export type ModelFiles = {
  /** The source in Jinja; "" where there is none, as of families whose prompts are written by code. */
  readonly template: string;
  readonly bosToken: string;
  readonly eosToken: string;
  readonly tokens: readonly AddedToken[];
};

/** Reads the template and the added tokens of a model; undefined for a file without such tokens. */
export function readModelFiles(tokenizerFile: string): ModelFiles | undefined {
  const beside = (name: string) => textOf(join(dirname(tokenizerFile), name));
  const config = parseFields(beside("tokenizer_config.json") ?? "") ?? {};
  const template = beside("chat_template.jinja") ?? asText(config.chat_template);
  const { added_tokens: added } = parseFields(textOf(tokenizerFile) ?? "") ?? {};
  const tokens = asList(added).flatMap((token) => addedToken(token) ?? []);
  if (tokens.length === 0) return undefined;
  return { template, bosToken: spelling(config.bos_token), eosToken: spelling(config.eos_token), tokens };
}

function addedToken(value: unknown): AddedToken | undefined {
  const { id, content, lstrip, single_word: isWord, normalized } = asFields(value);
  const token = asCount(id);
  const text = asText(content);
  if (token === undefined || text === "") return undefined;
  return { id: token, text, cuts: lstrip === false && isWord === false && normalized === false };
}

/** A token of the configuration is its text, or an object with it. */
function spelling(value: unknown): string {
  return asText(value) || asText(asFields(value).content);
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
