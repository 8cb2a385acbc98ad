import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { MARK, STAMP_LENGTH, stamp } from "../processes/stamp.ts";

/*
 * A tokenizer for gateways that tokenize themselves: byte-level BPE in the form of Hugging Face, with a realistic
 * vocabulary size. A stamp is three tokens, as an engine's event may be.
 */

export const TOKENIZED_MODEL = "svc-qwen";
/** The maximum tokens of a prompt and its answer together. */
export const CONTEXT_TOKENS = 1_000_000;
const END = "<|end|>";
/** The characters of a stamp per token. */
const CHARACTERS = 3;
const BASE = 36;
const COMBINATIONS = BASE ** CHARACTERS;
/** Words of the benches' prompts, one token each. None begins like a token of a stamp. */
const WORDS = ["Ġlorem", "Ġipsum", "Ġword"];

let beyond = 256;
/** The characters that represent the 256 bytes in byte-level BPE tokens. */
const BYTE_CHARACTERS: readonly string[] = Array.from({ length: 256 }, (_, byte) => {
  const shown = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  return String.fromCharCode(shown ? byte : beyond++);
});

/** Returns the tokens other than those of stamps, by id, and their merges. */
function ordinary(): { readonly tokens: readonly string[]; readonly merges: readonly string[] } {
  const tokens = new Set([END, ...BYTE_CHARACTERS]);
  const merges = new Set<string>();
  for (const word of WORDS)
    for (let length = 2; length <= word.length; length += 1) {
      merges.add(`${word.slice(0, length - 1)} ${word.charAt(length - 1)}`);
      tokens.add(word.slice(0, length));
    }
  return { tokens: [...tokens], merges: [...merges] };
}

const ORDINARY = ordinary();
const FIRST_STAMP_TOKEN = ORDINARY.tokens.length;

export const WORD_TOKEN = ORDINARY.tokens.indexOf("Ġword");

export const VOCABULARY_SIZE = FIRST_STAMP_TOKEN + 3 * COMBINATIONS;

/** Returns the tokens of the stamp of a time, in monotonic microseconds. */
export function stampTokens(timeUs: number): readonly number[] {
  const digits = stamp(timeUs).slice(MARK.length, STAMP_LENGTH - 1);
  return [0, 1, 2].map((at) => {
    const number = Number.parseInt(digits.slice(at * CHARACTERS, (at + 1) * CHARACTERS), BASE);
    return FIRST_STAMP_TOKEN + at * COMBINATIONS + number;
  });
}

/** Returns the text of prompt tokens other than stamps. */
export function textOf(tokens: readonly number[]): string {
  const characters = tokens.map((id) => (id === 0 ? "" : (ORDINARY.tokens[id] ?? ""))).join("");
  return Buffer.from(Array.from(characters, (one) => BYTE_CHARACTERS.indexOf(one))).toString();
}

/** Writes the tokenizer's files, with a chat template, into a folder. */
export async function writeTokenizer(folder: string): Promise<void> {
  const stampTexts = [0, 1, 2].flatMap((at) =>
    Array.from({ length: COMBINATIONS }, (_, number) => {
      const digits = number.toString(BASE).padStart(CHARACTERS, "0");
      return `${at === 0 ? MARK : ""}${digits}${at === 2 ? ";" : ""}`;
    }),
  );
  const vocab = Object.fromEntries([...ORDINARY.tokens, ...stampTexts].map((text, id) => [text, id]));
  const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  const end = { id: 0, content: END, special: true };
  const tokenizer = {
    ...{ version: "1.0", truncation: null, padding: null },
    added_tokens: [{ ...end, single_word: false, lstrip: false, rstrip: false, normalized: false }],
    ...{ normalizer: null, pre_tokenizer: bytes, post_processor: null, decoder: bytes },
    model: { type: "BPE", vocab, merges: ORDINARY.merges },
  };
  const template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:";
  const config = { tokenizer_class: "PreTrainedTokenizerFast", eos_token: END, chat_template: template };
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  await writeFile(join(folder, "tokenizer_config.json"), JSON.stringify(config));
  await writeFile(join(folder, "config.json"), JSON.stringify({ model_type: "bench" }));
}
