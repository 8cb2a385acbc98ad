import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { stamp } from "../../../../bench/processes/stamp.ts";
import {
  stampTokens,
  textOf,
  VOCABULARY_SIZE,
  WORD_TOKEN,
  writeTokenizer,
} from "../../../../bench/references/stamp-tokenizer.ts";

type Tokenizer = {
  readonly model: { readonly vocab: Readonly<Record<string, number>>; readonly merges: readonly string[] };
};

async function written(): Promise<Tokenizer["model"]> {
  const folder = await mkdtemp(join(tmpdir(), "svc-tokenizer-"));
  try {
    await writeTokenizer(folder);
    const { model } = JSON.parse(await readFile(join(folder, "tokenizer.json"), "utf8")) as Tokenizer;
    return model;
  } finally {
    await rm(folder, { recursive: true });
  }
}

test("each id has one text, and merges consist of tokens", async () => {
  const { vocab, merges } = await written();
  expect(Object.values(vocab).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: VOCABULARY_SIZE }, (_, id) => id),
  );
  const missing = merges
    .flatMap((pair) => [...pair.split(" "), pair.replace(" ", "")])
    .filter((text) => !(text in vocab));
  expect(missing).toEqual([]);
});

test("the tokens of a stamp decode to its text", async () => {
  const { vocab } = await written();
  const texts = new Map(Object.entries(vocab).map(([text, id]) => [id, text]));
  for (const timeUs of [0, 35, 46_655, 46_656, 1_234_567_890_123, 36 ** 9 - 1])
    expect(
      stampTokens(timeUs)
        .map((id) => texts.get(id))
        .join(""),
    ).toBe(stamp(timeUs));
  expect(texts.get(WORD_TOKEN)).toBe("Ġword");
});

test("the text of a prompt's tokens decodes again, with spaces and other characters", async () => {
  const { vocab } = await written();
  const text = 'ü {"events":3}\n';
  const shown = [...'Ã¼Ġ{"events":3}Ċ'];
  expect(textOf(shown.map((token) => vocab[token] ?? 0))).toBe(text);
});
