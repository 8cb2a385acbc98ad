import type { Backend } from "../../../engine/backend.ts";
import { OpenAiCompatibleBackend } from "../../../engine/backends/openai-compatible/openai-compatible-backend.ts";
import { ENGINE_TIMES } from "../../../engine/backends/openai-compatible/options.ts";
import { EngineError } from "../../../engine/errors.ts";
import { loadProfile } from "../../../engine/profiles/profile.ts";
import {
  type Event,
  FinishReason,
  ReasoningEffort,
  ReasoningMode,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { startBackend } from "../../support/engine/demo-engine.ts";
import { workHere } from "../../support/engine/work-here.ts";
import { answerOf } from "../../support/events/answer-of.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { independentValidator } from "../../support/schemas/independent-validator.ts";
import type { Judged, SchemaCase } from "./judge.ts";

const AT_ONCE = 16;
/** A model as small as the demonstration model does not end an unbounded value of its own accord. */
const MAX_TOKENS = 200;
/** A number that JavaScript, and with it the validator, reads as another one. */
const BEYOND_DOUBLES = /\d{16}/;

/** Starts a backend beside a vLLM that serves the demonstration weights at `baseUrl`. */
export async function besideVllm(baseUrl: string): Promise<Backend> {
  const backend = new OpenAiCompatibleBackend({
    ...ENGINE_TIMES,
    ...{ nodeId: "bench", models: ["demo"], baseUrl, dialect: "vllm", profile: loadProfile("hermes-thinking") },
    ...{ slots: AT_ONCE, stepTimeoutMs: 0, images: false, priorities: false, sharedCache: true, work: workHere },
    tokenCacheMegabytes: 0,
  });
  await backend.start(new AbortController().signal);
  return backend;
}

/** Starts the backend of llama.cpp with the same weights. */
export function besideLlama(): Promise<Backend> {
  return startBackend({ slots: AT_ONCE, threads: 2, queueLength: AT_ONCE });
}

/** Asks for one strict answer to each schema, and judges it by an independent validator. */
export async function judgeAnswers(backend: Backend, cases: readonly SchemaCase[]): Promise<readonly Judged[]> {
  const judged: Judged[] = [];
  const left = [...cases.entries()];
  const work = async () => {
    for (let next = left.pop(); next !== undefined; next = left.pop()) {
      const [at, { schema }] = next;
      const [outcome, why] = await judgeAnswer(backend, schema, at);
      judged.push({ outcome, strict: outcome, why, translationMs: Number.NaN });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return judged;
}

async function judgeAnswer(backend: Backend, schemaJson: string, seed: number): Promise<[Judged["outcome"], string?]> {
  const request = generateRequest(
    {
      model: "demo",
      sampling: { temperature: 1, stop: [], logitBias: {}, seed },
      reasoning: { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED },
      outputConstraint: { kind: { $case: "jsonSchema", value: { name: "answer", schemaJson, strict: true } } },
      maxOutputTokens: MAX_TOKENS,
    },
    "Write such a value.",
  );
  const events: Event[] = [];
  try {
    for await (const step of backend.generate(request, new AbortController().signal)) events.push(...step.events);
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    return [error.reason === "INVALID_SCHEMA" ? "refused" : "broken", `${error.reason}: ${error.message}`];
  }
  const { blocks, finished } = answerOf(events);
  if (finished?.reason !== FinishReason.STOP) return ["broken", "an answer that the limit cut"];
  const text = blocks.map((block) => block.text).join("");
  try {
    if (independentValidator(JSON.parse(schemaJson))(JSON.parse(text))) return ["right"];
  } catch {
    // No JSON.
  }
  if (BEYOND_DOUBLES.test(text)) return ["broken", "a number with more digits than the validator reads"];
  return ["invalid let through", `${schemaJson} ${text}`];
}
