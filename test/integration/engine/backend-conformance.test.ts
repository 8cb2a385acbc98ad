import { once } from "node:events";
import type { DialectName } from "../../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import { backendOf, textChunk } from "../../support/dialects/dialect-rig.ts";
import { type Asked, obedient, type Reply, startDialectServer } from "../../support/dialects/dialect-server.ts";
import { backendConformance } from "../../support/engine/backend-conformance.ts";
import type { OfferColumn } from "../../support/engine/backend-offers.ts";
import { type Script, ScriptedBackend } from "../../support/engine/scripted-backend.ts";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";

const MODEL = "svc-qwen";
const PROMPTS = { prompt: "Count.", endlessPrompt: "Count without end." };

/** Counts, and never ends if the request asks for that. */
const script: Script = async function* ({ messages }, signal) {
  yield [started({ nodeId: "n1" }), textStart(0)];
  yield [delta(0, "one, two, three")];
  if (JSON.stringify(messages).includes(PROMPTS.endlessPrompt)) await once(signal, "abort");
  yield [blockEnd(0), finished()];
};

backendConformance("a script", {
  ...PROMPTS,
  model: MODEL,
  playsOnly: true,
  start: async () => ({
    backend: new ScriptedBackend({ nodeId: "n1", models: [MODEL], slots: 2, script }),
    stop: async () => {},
  }),
});

backendConformance("the simulator", {
  model: MODEL,
  prompt: "Count.",
  // Fifty tokens in a twentieth of a second, which are never read.
  endlessPrompt: "Count without end.",
  start: async () => {
    const backend = fastSimulator({ slots: 2, queueLength: 0 });
    await backend.start();
    return { backend, stop: () => backend.close() };
  },
});

const WORDS = ["one", ", two", ", three", ", four", ", five"];

/** A model behind an engine that counts, obeys the length, and makes required calls. */
function counting(asked: Asked): Reply {
  const { prompt, maxTokens, grammar } = asked;
  if (prompt.includes(PROMPTS.endlessPrompt)) return { kind: "stream", data: WORDS.map(textChunk), end: "never" };
  if (!prompt.includes(PROMPTS.prompt) || prompt.includes("# Tools") || grammar !== "") return obedient(asked);
  const begun = prompt.split("<|im_start|>assistant\n").at(-1) ?? "";
  if (begun === "" && maxTokens >= WORDS.join("").length) return { kind: "answer", answer: { text: WORDS } };
  const text = WORDS.join("").slice(begun.length);
  const finish = maxTokens < text.length ? "length" : "stop";
  return { kind: "answer", answer: { text: [text.slice(0, maxTokens)], finish } };
}

const COLUMNS: Readonly<Record<DialectName, OfferColumn>> = {
  vllm: "vLLM",
  sglang: "SGLang",
  "llama-server": "llama-server",
};

for (const dialect of ["vllm", "sglang", "llama-server"] satisfies DialectName[])
  backendConformance(`a node beside ${dialect}`, {
    ...PROMPTS,
    column: COLUMNS[dialect],
    model: MODEL,
    start: async () => {
      const engine = await startDialectServer(dialect, { model: counting });
      const backend = backendOf(engine, dialect, { slots: 2 });
      await backend.start(new AbortController().signal);
      return {
        backend,
        stop: async () => {
          await backend.close();
          await engine.stop();
        },
      };
    },
  });
