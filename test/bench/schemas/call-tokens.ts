import type { LlamaBackend } from "../../../engine/backends/llama/llama-backend.ts";
import { type GenerateRequest, ReasoningMode } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { system, user } from "../../support/engine/canonical.ts";
import { DEMO_MODEL, request, startBackend } from "../../support/engine/demo-engine.ts";
import { toolOf } from "../../support/requests/generate-request.ts";
import { interleave, median, medianRatio } from "../report.ts";

const MAX_TOKENS = 100;
const CITY = { type: "object", properties: { city: { type: "string", maxLength: 16 } }, required: ["city"] };
const WEATHER = toolOf("get_weather", CITY);
const CALLED = { mode: ToolChoiceMode.REQUIRED, name: "", disableParallelCalls: false, allowedNames: [] };
const COUNT = "Count from 1 to 40.";
/** A sentence of about as many tokens in the vocabularies of the two models. */
const FILLER = "You are a helpful assistant. ";
const FILLER_TOKENS = 6;
const DISABLED = { mode: ReasoningMode.DISABLED, effort: 0 } as const;

type Answer = { readonly name: string; readonly fields: Partial<GenerateRequest>; readonly question: string };

/** Returns the processor time of a token of llama.cpp in process with a tool, over that without tools. */
export async function callTokens(repetitions: number, model: string | undefined): Promise<readonly string[]> {
  const notes: string[] = [];
  for (const modelPath of [DEMO_MODEL, ...(model === undefined ? [] : [model])]) {
    const backend = await startBackend({ modelPath, slots: 1 });
    notes.push(`${modelPath}, processor time of a token: ${await ratiosOf(backend, repetitions)}.`);
    await backend.close();
  }
  return notes;
}

const ASKED = "What is the weather in Oslo?";
const BARE: Answer = { name: "no tools", question: COUNT, fields: {} };
const TEXT: Answer = { name: "text with a tool", question: COUNT, fields: { tools: [WEATHER] } };
const ANSWERS = [
  BARE,
  TEXT,
  { name: "call", question: ASKED, fields: { tools: [WEATHER], toolChoice: CALLED } },
  { name: "strict call", question: ASKED, fields: { tools: [{ ...WEATHER, strict: true }], toolChoice: CALLED } },
];

async function ratiosOf(backend: LlamaBackend, repetitions: number): Promise<string> {
  const { promptTokens } = await measure(backend, TEXT, "");
  const bare = await measure(backend, BARE, "");
  // As long as the prompt with tools: attention to more tokens takes longer.
  const filler = FILLER.repeat(Math.max(0, Math.round((promptTokens - bare.promptTokens) / FILLER_TOKENS)));
  const rounds = await interleave(ANSWERS, repetitions, (answer) =>
    measure(backend, answer, answer.fields.tools ? "" : filler),
  );
  return ANSWERS.map(({ name }) => {
    const cost = medianRatio(rounds, name, "no tools", ({ msPerToken }) => msPerToken);
    const tokens = median(rounds.map((round) => round.get(name)?.tokens ?? Number.NaN));
    const ms = median(rounds.map((round) => round.get(name)?.msPerToken ?? Number.NaN));
    return `${name} ${ms.toFixed(3)} ms (${cost.toFixed(2)} of no tools, ${tokens} tokens)`;
  }).join(", ");
}

/** Measures the tokens behind the first one, without the prompt. */
async function measure(backend: LlamaBackend, { question, fields }: Answer, filler: string) {
  const messages = filler === "" ? [user(question)] : [system(filler), user(question)];
  const asked = request(messages, { maxOutputTokens: MAX_TOKENS, reasoning: DISABLED, ...fields });
  let began: NodeJS.CpuUsage | undefined;
  let tokens = 0;
  let promptTokens = 0;
  for await (const { events } of backend.generate(asked, new AbortController().signal)) {
    began ??= process.cpuUsage();
    for (const { kind } of events)
      if (kind?.$case === "finished") {
        tokens = kind.value.usage?.outputTokens ?? 0;
        promptTokens = kind.value.usage?.inputTokens ?? 0;
      }
  }
  const { user: inUser, system: inSystem } = process.cpuUsage(began);
  return { msPerToken: (inUser + inSystem) / 1000 / (tokens - 1), tokens, promptTokens };
}
