import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Llama } from "node-llama-cpp";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../deploy/runtime/time/clock.ts";
import { PORTION_UNITS, PromptEncoder } from "../../engine/backends/llama/tokens/prompt-encoder.ts";
import { readVocabulary } from "../../engine/backends/llama/tokens/vocabulary.ts";
import { ChatTemplate, type Conversation } from "../../engine/conversation/chat-template.ts";
import { SegmentCache } from "../../engine/conversation/segment-cache.ts";
import { DEMO_MODEL, missing, never } from "../support/engine/demo-engine.ts";
import { llamaCppSource } from "../support/engine/llama-cpp-source.ts";
import { loadLlama } from "../support/engine/load-llama.ts";
import { randomConversation } from "../support/engine/random-conversations.ts";
import { workHere } from "../support/engine/work-here.ts";
import { SeededRandom } from "../support/seeded-random.ts";

/* Whether the tokens of a prompt are those of its segments, in the published vocabularies that llama.cpp carries. */

const PROMPTS = 500;
const PUBLISHED = [
  ...["qwen2", "qwen35", "deepseek-llm", "llama-bpe", "llama-spm", "gemma-4", "phi-3", "command-r", "gpt-2"],
].map((name) => ({ name, file: `models/ggml-vocab-${name}.gguf` }));

describe.skipIf(missing !== "")("a conversation has the tokens of the whole prompt", () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-vocabularies-"));
  let llama: Llama | undefined;
  let read: (path: string) => Buffer;

  beforeAll(async () => {
    read = llamaCppSource(join(folder, "source"));
    llama = await loadLlama();
  });
  afterAll(async () => {
    await llama?.dispose();
    rmSync(folder, { recursive: true });
  });

  test.each([{ name: "the demonstration model", file: undefined }, ...PUBLISHED])(
    "a conversation has the tokens of its whole prompt with the vocabulary of $name",
    async ({ file }) => {
      const modelPath = file === undefined ? DEMO_MODEL : join(folder, "vocabulary.gguf");
      if (file !== undefined) writeFileSync(modelPath, read(file));
      const model = await llama?.loadModel({ modelPath, vocabOnly: true });
      if (!model) throw new Error("no engine");
      const vocabulary = readVocabulary(model);
      const { controlTokens, cutsAtWords, bosText: bosToken, eosText: eosToken } = vocabulary;
      const marks = controlTokens.tokens.filter(({ text }) => text.length > 1).slice(0, 40);
      const mark = (at: number) => JSON.stringify(marks[at % marks.length]?.text);
      const written = (at: number, value: string) => `{{ ${mark(at)} }}${value}{{ ${mark(at + 1)} }}`;
      const source =
        `{{ bos_token }}{% for m in messages %}{{ m.role }}${written(0, "{{ m.content or '' }}")}\n` +
        `{% for c in m.tool_calls or [] %}${written(2, "{{ c.function.arguments | tojson }}")}{% endfor %}` +
        `${written(4, "{{ m.reasoning_content or '' }} aside")}{% endfor %}${written(6, "")}`;
      const template = new ChatTemplate({ source, bosToken, eosToken, controlTokens });
      const segments = new SegmentCache(systemClock, 64);
      const encoder = new PromptEncoder({
        ...{ model, vocabulary, segments, contextWindow: 1_000_000, work: workHere },
        format: {
          ...{ source, bosToken, eosToken, controlTokens: controlTokens.tokens, cutsAtWords },
          ...{ maxUnits: PORTION_UNITS, reasoningOpen: undefined },
        },
      });

      const random = new SeededRandom(11);
      let compared = 0;
      while (compared < PROMPTS) {
        const { messages, tools } = randomConversation(random);
        // Callers' spellings of control tokens are cut on purpose.
        if (controlTokens.occurrences(JSON.stringify(messages)).length > 0) continue;
        const conversation: Conversation = { messages, tools, reasoning: false };
        const whole = template.render(conversation).map(({ text }) => text);
        const { tokens } = await encoder.encode(conversation, { tenant: "t", signal: never() });
        expect(tokens).toEqual(model.tokenize(whole.join(""), true));
        compared += 1;
      }
      expect(segments.foundTokens).toBeGreaterThan(0);
      await model.dispose();
    },
  );
});
