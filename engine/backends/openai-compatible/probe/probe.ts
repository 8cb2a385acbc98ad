import { createHash } from "node:crypto";
import {
  CountTokensRequest,
  type Event,
  GenerateRequest,
  ReasoningEffort,
  ReasoningMode,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  ImageDetail,
  type Message,
  type Part,
  Role,
  type Tool,
} from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { Capability } from "../../../../proto/gen/svc/inference/v1/node_service.ts";
import { ANY_ORDER, says, type TurnRules, textPart } from "../../../conversation/history/model-history.ts";
import { type PromptCount, TRIAL_TOOL, TRIALS, turnRulesOfCounts } from "../../../conversation/history/turn-rules.ts";
import { EngineError, type ErrorReason } from "../../../errors.ts";
import { formOf } from "../../../tool-calls/forms.ts";
import type { Ask, RenderedPrompt, TokenSampling } from "../engines/engine-dialect.ts";
import { generate } from "../generation/generation.ts";
import { asking, type GenerationParts, reading } from "../generation/generation-parts.ts";
import { type RequestSettings, toChatPrompt } from "../request/request.ts";

export type ProbeResult = {
  readonly capabilities: readonly Capability[];
  readonly turns: TurnRules;
  /** The sampling parameters of the model's own configuration that the node has to send; undefined if not known. */
  readonly defaults: Partial<TokenSampling> | undefined;
  /** Whether the engine accepts images; false if not probed. */
  readonly images: boolean;
  /** Whether the engine takes the grammar of a call that the model may make. */
  readonly holdsForms: boolean;
};

/** A red square of 64 pixels, as some engines reject images smaller than their patch size. */
const SQUARE = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrsKZeS0BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC",
  "base64",
);

/** The only text that the probe's schema allows: an engine that ignores a grammar says something else. */
const WORD = "A12B";
const WORD_SCHEMA = { name: "word", schemaJson: JSON.stringify({ const: WORD }), strict: true };
/** More than a block of any usual size: of less, an engine may keep nothing. */
const PROBED_PROMPT = "once more ".repeat(300);
const NO_REASONING = { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED };
const MAX_TOKENS = 1_024;

const WITH_TOOLS = [
  Capability.TOOLS,
  Capability.PARALLEL_TOOL_CALLS,
  Capability.FORCED_TOOL_CHOICE,
  Capability.STRICT_TOOLS,
];

/** The reasons of errors that mean that the engine does not support a feature. */
const REFUSALS: ReadonlySet<ErrorReason> = new Set(["INVALID_REQUEST", "INVALID_SCHEMA", "UNSUPPORTED_FEATURE"]);

/**
 * Sends a few small requests before the node starts serving: one rendering, one answer from tokens under a grammar, and
 * the orders of messages that the template takes. Throws `EngineError` ENGINE_DOWN with the finding and the option that
 * the engine needs.
 */
export async function probe(parts: GenerationParts, signal: AbortSignal): Promise<ProbeResult> {
  const { profile, dialect, servedModel, sharedCache } = parts.settings;
  const messages = [says(Role.USER, textPart(`Say ${WORD}.`))];
  await render(parts, messages, signal).catch((error: unknown) => {
    throw explained(error, "it does not render a conversation to tokens", parts.settings);
  });
  const ask = asking(parts.http, parts.countTimeoutMs, signal);
  const defaults = await dialect.samplingDefaults?.(ask, servedModel, reading(parts.http, signal));
  const holdsGrammars = await probeGrammar(parts, messages, signal);
  const turns = await turnRulesOfCounts((trial) => sizeOf(parts, trial, signal), profile);
  const alwaysThinks = profile.thinking !== undefined && profile.thinking.off === undefined;
  return {
    turns,
    defaults: dialect.samplingDefaults ? defaults : {},
    holdsForms: holdsGrammars && (await probeForm(parts, messages, signal)),
    images: dialect.takesImages && parts.settings.images && (await probeImage(parts, signal)),
    capabilities: [
      ...WITH_TOOLS.slice(0, holdsGrammars ? undefined : 2),
      ...(holdsGrammars ? [Capability.JSON_OBJECT, Capability.JSON_SCHEMA] : []),
      ...(profile.thinking ? [Capability.REASONING, Capability.REASONING_BUDGET] : []),
      ...(alwaysThinks ? [] : [Capability.REASONING_OFF]),
      Capability.EXACT_TOKEN_COUNT,
      Capability.LOGPROBS,
      Capability.ASSISTANT_PREFILL,
      Capability.CONTINUATION,
      Capability.PROMPT_DIGEST,
      ...(dialect.saltsCache || !sharedCache ? [Capability.CACHE_ISOLATION] : []),
    ],
  };
}

/**
 * Resolves to whether the model gets tools in its own form: the node reads calls of the profile, and the engine's template
 * shows the tools. Throws `EngineError` ENGINE_DOWN if it does not: calls in another form than the trained one fail often.
 */
export async function showsTools(ask: Ask, settings: RequestSettings): Promise<boolean> {
  const { dialect, profile } = settings;
  if (profile.toolsAsText || !profile.toolCall || !formOf(profile.toolCall).markup(profile.toolCall)) return false;
  const size = async (tools: readonly Tool[]): Promise<PromptCount> => {
    const request = { messages: TRIALS.usersTogether.slice(0, 1), tools, reasoning: NO_REASONING };
    try {
      return (await dialect.render(ask, toChatPrompt(request, settings))).tokens.length;
    } catch (error) {
      return isRefusal(error, "ENGINE_ERROR") ? "refused" : "unknown";
    }
  };
  const without = await size([]);
  const shown = await size([TRIAL_TOOL]);
  // The probe names the fault of an engine that renders nothing.
  if (typeof without !== "number" || shown === "unknown" || (shown !== "refused" && shown > without)) return true;
  throw new EngineError(
    "ENGINE_DOWN",
    `The engine did not pass the start-up probe: its chat template shows the model no tools, and the profile (${profile.family}) has calls of its own. Start it with the model's own chat template; for a model without calls take the profile generic.`,
  );
}

export function probeRequest(messages: readonly Message[], wishes: Partial<GenerateRequest> = {}): GenerateRequest {
  const sampling = { temperature: 0, stop: [], logitBias: {} };
  return { ...GenerateRequest.create(), sampling, maxOutputTokens: MAX_TOKENS, messages, ...wishes };
}

export async function askEngine(
  parts: GenerationParts,
  request: GenerateRequest,
  signal: AbortSignal,
): Promise<readonly Event[]> {
  const events: Event[] = [];
  for await (const step of generate(parts, request, signal)) events.push(...step.events);
  return events;
}

/** Resolves to the prompt of messages, in exactly their order. Throws `EngineError`. */
function render(
  { settings, http, countTimeoutMs }: GenerationParts,
  messages: readonly Message[],
  signal: AbortSignal,
): Promise<RenderedPrompt> {
  const request = { ...CountTokensRequest.create(), messages, reasoning: NO_REASONING };
  const prompt = toChatPrompt(request, { ...settings, turns: ANY_ORDER });
  return settings.dialect.render(asking(http, countTimeoutMs, signal), prompt);
}

/** Resolves to whether the engine holds a grammar. Throws `EngineError` ENGINE_DOWN if it does not generate. */
async function probeGrammar(
  parts: GenerationParts,
  messages: readonly Message[],
  signal: AbortSignal,
): Promise<boolean> {
  const outputConstraint = { kind: { $case: "jsonSchema", value: WORD_SCHEMA } } as const;
  try {
    const events = await askEngine(
      parts,
      probeRequest(messages, { reasoning: NO_REASONING, outputConstraint }),
      signal,
    );
    const texts = events.map(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.text : ""));
    return texts.join("").endsWith(JSON.stringify(WORD));
  } catch (error) {
    if (isRefusal(error)) return false;
    throw explained(error, "it does not generate from tokens", parts.settings);
  }
}

/** Resolves to whether the engine takes the grammar of a call that the model may make, in text that is free otherwise. */
async function probeForm(parts: GenerationParts, messages: readonly Message[], signal: AbortSignal): Promise<boolean> {
  try {
    const wishes = { reasoning: NO_REASONING, tools: [TRIAL_TOOL], maxOutputTokens: 1 };
    await askEngine(parts, probeRequest(messages, wishes), signal);
    return true;
  } catch (error) {
    if (isRefusal(error)) return false;
    throw explained(error, "it does not generate from tokens", parts.settings);
  }
}

/** Resolves to whether the engine reads a prompt for another one, and keeps it. */
export async function probeHandOver(parts: GenerationParts, signal: AbortSignal): Promise<boolean> {
  const messages = [says(Role.USER, textPart(PROBED_PROMPT))];
  const wishes = { reasoning: NO_REASONING, maxOutputTokens: 0, makeHandOver: true };
  try {
    const events = await askEngine(parts, probeRequest(messages, wishes), signal);
    return events.some(({ kind }) => kind?.$case === "started" && kind.value.handOver !== undefined);
  } catch (error) {
    if (signal.aborted) throw error;
    return false;
  }
}

async function probeImage(parts: GenerationParts, signal: AbortSignal): Promise<boolean> {
  const image: Part = {
    kind: {
      $case: "image",
      value: {
        source: { $case: "data", value: SQUARE },
        mimeType: "image/png",
        detail: ImageDetail.UNSPECIFIED,
        contentSha256: createHash("sha256").update(SQUARE).digest(),
      },
    },
  };
  const messages = [says(Role.USER, image, textPart("Which colour is this? Answer with one word."))];
  try {
    await askEngine(parts, probeRequest(messages, { reasoning: NO_REASONING }), signal);
    return true;
  } catch (error) {
    if (isRefusal(error, "ENGINE_ERROR")) return false;
    throw explained(error, "it does not answer about an image", parts.settings);
  }
}

/** Resolves to the size of a prompt; any failure of the engine counts as a rejection. */
async function sizeOf(parts: GenerationParts, messages: readonly Message[], signal: AbortSignal): Promise<PromptCount> {
  try {
    return (await render(parts, messages, signal)).tokens.length;
  } catch (error) {
    if (signal.aborted) throw error;
    return isRefusal(error, "ENGINE_ERROR") ? "refused" : "unknown";
  }
}

/** Returns whether the engine does not support the request; some fail with a generic error then. */
function isRefusal(error: unknown, generic?: "ENGINE_ERROR"): boolean {
  return error instanceof EngineError && (REFUSALS.has(error.reason) || error.reason === generic);
}

/** Returns the probe's error for a failed request; the error of a departed caller is unchanged. */
function explained(error: unknown, finding: string, { dialect, profile }: RequestSettings): unknown {
  if (!(error instanceof EngineError) || error.reason === "CANCELLED") return error;
  const said = `${error.reason}: ${error.message.replace(/\.$/, "")}`;
  const advice = `${dialect.advice} Is the profile (${profile.family}) that of the model?`;
  return new EngineError(
    "ENGINE_DOWN",
    `The engine did not pass the start-up probe: ${finding} (${said}). ${advice}`,
    {},
    error,
  );
}
