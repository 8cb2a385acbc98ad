import { once } from "node:events";
import type { DialectName } from "../../../engine/backends/openai-compatible/dialect/dialect.ts";
import { backendOf, textChunk } from "../../support/dialects/dialect-rig.ts";
import { type ChatBody, obedient, type Reply, startDialectServer } from "../../support/dialects/dialect-server.ts";
import { backendConformance } from "../../support/engine/backend-conformance.ts";
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

/** A model behind an engine that counts, obeys length and stop strings, and makes required calls. */
function counting(body: ChatBody): Reply {
  const { messages, stop, max_tokens: most = body.max_completion_tokens } = body;
  if (JSON.stringify(messages).includes(PROMPTS.endlessPrompt))
    return { kind: "stream", data: WORDS.map(textChunk), end: "never" };
  if (!JSON.stringify(messages).includes(PROMPTS.prompt) || Array.isArray(body.tools)) return obedient(body);
  if (typeof most === "number" && most < WORDS.length)
    return { kind: "answer", answer: { text: WORDS.slice(0, most), finish: "length" } };
  const text = WORDS.join("");
  for (const each of Array.isArray(stop) ? stop.map(String) : [])
    if (text.includes(each))
      return { kind: "answer", answer: { text: [text.slice(0, text.indexOf(each))], finish: "stop", stop: each } };
  return { kind: "answer", answer: { text: WORDS } };
}

for (const dialect of ["vllm", "sglang", "llama-server"] satisfies DialectName[])
  backendConformance(`a node beside ${dialect}`, {
    ...PROMPTS,
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
