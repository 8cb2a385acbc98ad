/**
 * Runs the held-out prompts on a GGUF file and reports how many answers are sensible.
 *
 *   npm run build && node engine/demo-model/evaluate.mjs engine/demo-model/demo.gguf [--show] [--temperature 0]
 */
import { parseArgs } from "node:util";
import { getLlama, LlamaGrammarEvaluationState } from "node-llama-cpp";
import { JinjaTemplate } from "../../dist/engine/conversation/jinja/template.js";
import { toValue } from "../../dist/engine/conversation/jinja/values.js";
import { CASES } from "./evaluation-cases.mjs";

const MAX_TOKENS = 400;

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    show: { type: "boolean", default: false },
    temperature: { type: "string", default: "0" },
  },
});
const [modelPath] = positionals;
if (modelPath === undefined) {
  console.error("usage: node evaluate.mjs MODEL.gguf [--show] [--temperature 0]");
  process.exit(2);
}

const llama = await getLlama({
  gpu: false,
  build: "never",
  skipDownload: true,
  logLevel: "error",
  progressLogs: false,
  maxThreads: 1,
});
const model = await llama.loadModel({ modelPath });
const template = new JinjaTemplate(model.fileInfo.metadata.tokenizer.chat_template);
const context = await model.createContext({ sequences: 1, contextSize: 2048, threads: 1 });
const sequence = context.getSequence();

/** The answer to one case, and how many tokens it has. */
async function answer({ messages, tools, thinks = false, schema }) {
  const given = { messages, tools, add_generation_prompt: true, enable_thinking: thinks };
  const variables = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, toValue(value)]));
  const prompt = template.render(variables, { quote: JSON.stringify });
  await sequence.clearHistory();
  const grammarEvaluationState =
    schema && new LlamaGrammarEvaluationState({ model, grammar: await llama.createGrammarForJsonSchema(schema) });
  const sampling = { temperature: Number(values.temperature), topP: 0.9, seed: 1, grammarEvaluationState };
  const tokens = [];
  for await (const token of sequence.evaluate(model.tokenize(prompt, true), sampling)) {
    tokens.push(token);
    if (tokens.length >= MAX_TOKENS) break;
  }
  return { text: model.detokenize(tokens, false), tokens: tokens.length };
}

const categories = {};
let passed = 0;
let tokens = 0;
const begun = performance.now();
for (const one of CASES) {
  const reply = await answer(one);
  tokens += reply.tokens;
  const good = one.passes(reply.text);
  categories[one.category] ??= { right: 0, asked: 0 };
  const category = categories[one.category];
  category.asked += 1;
  if (good) {
    category.right += 1;
    passed += 1;
  }
  if (good && !values.show) continue;
  const question = one.messages.at(-1).content.slice(0, 90);
  console.log(`${good ? "ok  " : "FAIL"} ${one.category} | ${question} => ${JSON.stringify(reply.text).slice(0, 260)}`);
}
const seconds = (performance.now() - begun) / 1000;
console.table(categories);
console.log(`passed ${passed} of ${CASES.length}, ${Math.round(tokens / seconds)} tokens per second`);
await llama.dispose();
