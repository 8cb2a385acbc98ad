import { createHash } from "node:crypto";
import {
  type GenerateRequest,
  ReasoningEffort,
  ReasoningMode,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  ImageDetail,
  type Part,
  Role,
  type ToolChoice,
  ToolChoiceMode,
} from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { Capability } from "../../../../proto/gen/svc/inference/v1/node_service.ts";
import { ANY_ORDER, type PromptCount, type TurnRules, turnRulesOfCounts } from "../../../conversation/turn-rules.ts";
import { EngineError, type ErrorReason } from "../../../errors.ts";
import type { ModelProfile } from "../../../profiles/profile.ts";
import type { Dialect } from "../dialect/dialect.ts";
import { countTokens } from "../generation/count-tokens.ts";
import type { GenerationParts } from "../generation/generation-parts.ts";
import { parseFields } from "../http/json-fields.ts";
import { toJsonText } from "../http/raw-json.ts";
import { type RequestSettings, toCountBody } from "../request/request.ts";
import { askEngine, type ProbeAnswer, probeRequest } from "./probe-answer.ts";

export type ProbeResult = {
  readonly capabilities: readonly Capability[];
  readonly thinkingBudget: boolean;
  /** Whether the engine reports the prompt size before the first piece of the answer. */
  readonly countsAtStart: boolean;
  readonly turns: TurnRules;
  /** Whether the engine accepts images; false if not probed. */
  readonly images: boolean;
};

/** A red square of 64 pixels, as some engines reject images smaller than their patch size. */
const SQUARE = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrsKZeS0BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC",
  "base64",
);

const BUDGET_TOKENS = 512;

/**
 * Strict: the engine constrains the arguments to the schema, so that a weak model's error is not mistaken for a wrong
 * flag.
 */
const TOOL = {
  name: "report_sum",
  description: "Reports the sum of two whole numbers.",
  parametersJsonSchema:
    '{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}',
  strict: true,
};

const SUM_SCHEMA = {
  name: "sum",
  schemaJson:
    '{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"],"additionalProperties":false}',
  strict: true,
};

const NO_REASONING = { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED };

const WITH_TOOLS = [
  Capability.TOOLS,
  Capability.PARALLEL_TOOL_CALLS,
  Capability.FORCED_TOOL_CHOICE,
  Capability.STRICT_TOOLS,
];

/** The reasons of errors that mean that the engine does not support a feature. */
const REFUSALS: ReadonlySet<ErrorReason> = new Set(["INVALID_REQUEST", "INVALID_SCHEMA", "UNSUPPORTED_FEATURE"]);

/**
 * Sends a few small requests before the node starts serving. Reasoning and tool calls must be returned as such;
 * otherwise a parser flag of the engine is wrong, the most common configuration error. Throws `EngineError` ENGINE_DOWN
 * with the finding and the flags that the model needs.
 */
export async function probe(parts: GenerationParts, signal: AbortSignal): Promise<ProbeResult> {
  const { profile, dialect, sharedCache, images } = parts.settings;
  const thinkingBudget = await probeThinking(parts, signal);
  if (profile.toolCall) await probeTools(parts, signal);
  const schema = await probeSchema(parts, signal);
  const size = await countPrompt(parts, probeRequest("What is 17 + 25?", {}), signal);
  const turns = await turnRulesOfCounts(
    (messages) => countPrompt(parts, probeRequest("", { messages }), signal),
    profile,
  );
  const alwaysThinks = profile.thinking !== undefined && profile.thinking.off === undefined;
  return {
    thinkingBudget,
    turns,
    images: images && (await probeImage(parts, signal)),
    countsAtStart: schema.countsAtStart,
    capabilities: [
      ...(profile.toolCall ? WITH_TOOLS : []),
      ...(schema.works ? [Capability.JSON_OBJECT, Capability.JSON_SCHEMA] : []),
      ...(profile.thinking ? [Capability.REASONING] : []),
      ...(alwaysThinks ? [] : [Capability.REASONING_OFF]),
      ...(thinkingBudget ? [Capability.REASONING_BUDGET] : []),
      ...(typeof size === "number" && size > 0 ? [Capability.EXACT_TOKEN_COUNT] : []),
      Capability.LOGPROBS,
      Capability.ASSISTANT_PREFILL,
      ...(dialect.fields.cacheSalt !== undefined || !sharedCache ? [Capability.CACHE_ISOLATION] : []),
    ],
  };
}

/** Resolves to whether the engine accepts a reasoning budget. An engine without support for budgets rejects them. */
async function probeThinking(parts: GenerationParts, signal: AbortSignal): Promise<boolean> {
  const { settings } = parts;
  const { thinking, reasoning } = settings.profile;
  if (!thinking) return false;
  const ask = async (thinkingBudget: boolean) => {
    const wish = { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.UNSPECIFIED, budgetTokens: BUDGET_TOKENS };
    const request = probeRequest("What is 17 + 25? Think first, then answer with one word.", { reasoning: wish });
    return askEngine({ ...parts, settings: { ...settings, thinkingBudget } }, request, signal);
  };
  let thinkingBudget = settings.dialect.fields.thinkingBudget !== undefined;
  let answer: ProbeAnswer;
  try {
    answer = await ask(thinkingBudget).catch((error: unknown) => {
      if (!thinkingBudget || !isRefusal(error)) throw error;
      thinkingBudget = false;
      return ask(false);
    });
  } catch (error) {
    throw explainFailure(error, "a request with reasoning", settings);
  }
  const marks = [reasoning?.open ?? "", reasoning?.close ?? ""];
  if (marks.some((mark) => mark !== "" && answer.text.includes(mark))) {
    throw probeFailure("the reasoning is part of the text", settings);
  }
  if (answer.reasoning.trim() === "") throw probeFailure("there is no reasoning", settings);
  return thinkingBudget;
}

async function probeTools(parts: GenerationParts, signal: AbortSignal): Promise<void> {
  const { settings } = parts;
  const ask = (mode: ToolChoiceMode, name: string): Promise<ProbeAnswer> => {
    const toolChoice: ToolChoice = { mode, name, disableParallelCalls: false, allowedNames: [] };
    const wishes = { tools: [TOOL], toolChoice, reasoning: NO_REASONING };
    const request = probeRequest("Report the sum of 17 and 25 with the tool.", wishes);
    return askEngine(parts, request, signal).catch((error: unknown) => {
      throw explainFailure(error, "a request with tools", settings);
    });
  };
  const { calls } = await ask(ToolChoiceMode.NAMED, TOOL.name);
  const [call] = calls;
  if (!call?.complete || calls.length !== 1 || call.name !== TOOL.name || !parseFields(call.arguments)) {
    throw probeFailure("a required tool call is not returned as one complete call", settings);
  }
  // A required call may bypass the engine's parser. Here the model is free: it need not call, but no markup may appear.
  const free = await ask(ToolChoiceMode.AUTO, "");
  const mark = callMark(settings.profile);
  if (mark !== "" && free.text.includes(mark)) throw probeFailure("a tool call is part of the text", settings);
}

async function probeSchema(
  parts: GenerationParts,
  signal: AbortSignal,
): Promise<{ readonly works: boolean; readonly countsAtStart: boolean }> {
  const request = probeRequest("What is 17 + 25? Answer in JSON.", {
    reasoning: NO_REASONING,
    outputConstraint: { kind: { $case: "jsonSchema", value: SUM_SCHEMA } },
  });
  try {
    const answer = await askEngine(parts, request, signal);
    const works = Number.isInteger(parseFields(answer.text)?.sum);
    return { works, countsAtStart: answer.inputTokensAtStart > 0 };
  } catch (error) {
    if (!isRefusal(error)) throw explainFailure(error, "a request with a JSON schema", parts.settings);
    return { works: false, countsAtStart: false };
  }
}

/** Resolves to whether the engine answers a question about an image. */
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
  const question: Part = { kind: { $case: "text", value: { text: "Which colour is this? Answer with one word." } } };
  const messages = [{ role: Role.USER, parts: [image, question] }];
  try {
    await askEngine(parts, probeRequest("", { messages, reasoning: NO_REASONING }), signal);
    return true;
  } catch (error) {
    if (isRefusal(error) || isEngineError(error)) return false;
    throw explainFailure(error, "a request with an image", parts.settings);
  }
}

/** Resolves to the size of a prompt; any failure of the engine counts as a rejection. */
async function countPrompt(
  { http, settings, countTimeoutMs }: GenerationParts,
  { messages, tools, toolChoice, reasoning }: GenerateRequest,
  signal: AbortSignal,
): Promise<PromptCount> {
  const inAnyOrder = { ...settings, turns: ANY_ORDER };
  const fields = toCountBody({ model: "", messages, tools, toolChoice, reasoning }, inAnyOrder);
  const body = [Buffer.from(toJsonText(fields))];
  try {
    return await countTokens(http, settings.dialect, body, countTimeoutMs, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return isRefusal(error) || isEngineError(error) ? "refused" : "unknown";
  }
}

/** Returns the text that appears in an answer if a call was not parsed. */
function callMark({ toolCall }: ModelProfile): string {
  if (!toolCall || toolCall.form === "bare-json") return "";
  const mark = toolCall.form === "sections" ? toolCall.open || toolCall.callOpen : toolCall.open;
  return mark.trim();
}

/** Returns whether the engine does not support the request, as opposed to a failure. */
function isRefusal(error: unknown): boolean {
  return error instanceof EngineError && REFUSALS.has(error.reason);
}

/** Returns whether the engine failed with a generic error, as some do for unsupported requests. */
function isEngineError(error: unknown): boolean {
  return error instanceof EngineError && error.reason === "ENGINE_ERROR";
}

/** Creates the probe's error: the finding, and the flags that models of the profile need. */
function probeFailure(what: string, settings: RequestSettings, cause?: unknown): EngineError {
  const advice = settings.dialect.name === "llama-server" ? llamaAdvice(settings.profile) : flagAdvice(settings);
  return new EngineError("ENGINE_DOWN", `The engine did not pass the start-up probe: ${what}.${advice}`, {}, cause);
}

/** Returns the probe's error for a failed request; the error of a departed caller is unchanged. */
function explainFailure(error: unknown, what: string, settings: RequestSettings): unknown {
  if (!(error instanceof EngineError) || error.reason === "CANCELLED") return error;
  return probeFailure(`${what} ended in ${error.reason} (${error.message.replace(/\.$/, "")})`, settings, error);
}

function llamaAdvice({ family }: ModelProfile): string {
  return ` Is it started with --jinja, and is the profile (${family}) that of the model?`;
}

function flagAdvice({ dialect, profile }: { readonly dialect: Dialect; readonly profile: ModelProfile }): string {
  const isVllm = dialect.name === "vllm";
  const { toolCall, reasoning } = (isVllm ? profile.parsers.vllm : profile.parsers.sglang) ?? {};
  const flags = [
    ...(isVllm && toolCall !== undefined ? ["--enable-auto-tool-choice"] : []),
    ...(toolCall === undefined ? [] : [`--tool-call-parser ${toolCall}`]),
    ...(reasoning === undefined ? [] : [`--reasoning-parser ${reasoning}`]),
  ];
  return flags.length === 0 ? "" : ` Models of this profile (${profile.family}) need ${flags.join(" ")}.`;
}
