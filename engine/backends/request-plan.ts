import { randomBytes } from "node:crypto";
import { shownTools } from "../../deploy/runtime/contract/shown-tools.ts";
import {
  type Continuation,
  FinishReason,
  type GenerateRequest,
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, type Tool, type ToolChoice, ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../errors.ts";
import type { ModelProfile, ThinkingEffort } from "../profiles/profile.ts";
import { promptDigest } from "./model-revision.ts";

/**
 * Returns the continuation of a request, if any. Throws `EngineError` REVISION_MISMATCH if another `revision` of the
 * model began the answer, as its tokens may represent other text; with a prompt digest, `answeredPrompt` decides.
 */
export function continuedAnswer({ continuation }: GenerateRequest, revision: string): Continuation | undefined {
  if (!continuation || continuation.promptDigest !== undefined || continuation.modelRevision === revision)
    return continuation;
  throw new EngineError("REVISION_MISMATCH", "Another revision of the model began the answer.");
}

/**
 * Returns the digest of a rendered prompt; undefined where no other node could need it. Throws `EngineError`
 * REVISION_MISMATCH if the answer that the request continues was begun for another one.
 */
export function answeredPrompt(
  { continuation, resumable }: GenerateRequest,
  basis: string,
  tokens: ArrayLike<number>,
): string | undefined {
  const begun = continuation?.promptDigest;
  if (!resumable && begun === undefined) return undefined;
  const digest = promptDigest(basis, tokens);
  if (begun === undefined || begun === digest) return digest;
  throw new EngineError("REVISION_MISMATCH", "The answer was begun for another prompt or model.");
}

export type OutputLimit = {
  /** The most tokens of the answer; 0 if only the prompt is to be read. */
  readonly maxOutputTokens: number;
  readonly limitReason: FinishReason;
};

/** Returns the number of tokens that fit after a prompt. Throws `EngineError` CONTEXT_WINDOW_EXCEEDED if none does. */
export function windowLeft(inputTokens: number, contextWindow: number): number {
  const budget = contextWindow - inputTokens;
  if (budget >= 1) return budget;
  throw windowExceeded(inputTokens, contextWindow);
}

/** Creates the error for a prompt after which no token fits; both numbers are tokens. */
export function windowExceeded(inputTokens: number, contextWindow: number): EngineError {
  return new EngineError("CONTEXT_WINDOW_EXCEEDED", "The prompt is longer than the model's context window.", {
    input_tokens: String(inputTokens),
    context_window: String(contextWindow),
  });
}

/** Returns the lower of the request's limit and the window behind its prompt. Throws as `windowLeft` does. */
export function limitOutput(request: GenerateRequest, inputTokens: number, contextWindow: number): OutputLimit {
  const budget = windowLeft(inputTokens, contextWindow);
  const asked = request.maxOutputTokens ?? Number.POSITIVE_INFINITY;
  const cut = asked <= budget ? FinishReason.MAX_OUTPUT_TOKENS : FinishReason.CONTEXT_WINDOW;
  // Without an answer nothing is cut.
  return { maxOutputTokens: Math.min(asked, budget), limitReason: asked === 0 ? FinishReason.STOP : cut };
}

export type ReasoningUse = {
  readonly wanted: boolean;
  /** The family's settings for the request's effort; undefined if the request or the family has none. */
  readonly effort: ThinkingEffort | undefined;
  /** The most reasoning tokens; undefined without a bound. */
  readonly budgetTokens: number | undefined;
};

/**
 * Reads the reasoning of a request. A request without a mode gets the family's default; a budget takes precedence over
 * an effort. `thinking` is undefined for a family that does not reason, or an unknown one.
 */
export function planReasoning(
  reasoning: Reasoning | undefined,
  thinking: ModelProfile["thinking"] | undefined,
): ReasoningUse {
  const mode = reasoning?.mode ?? ReasoningMode.UNSPECIFIED;
  const byDefault = mode === ReasoningMode.UNSPECIFIED && thinking !== undefined && thinking.default !== "off";
  if (mode !== ReasoningMode.ENABLED && !byDefault) {
    return { wanted: false, effort: undefined, budgetTokens: undefined };
  }
  const level = LEVELS[reasoning?.effort ?? ReasoningEffort.UNSPECIFIED];
  const effort = level && thinking?.effort?.[level];
  return { wanted: true, effort, budgetTokens: reasoning?.budgetTokens ?? effort?.budgetTokens };
}

const LEVELS: Readonly<Partial<Record<ReasoningEffort, "low" | "medium" | "high">>> = {
  [ReasoningEffort.LOW]: "low",
  [ReasoningEffort.MEDIUM]: "medium",
  [ReasoningEffort.HIGH]: "high",
};

export type ToolUse = {
  /** The tools that may be called, in the request's order: no deferred one that no message declares. */
  readonly callable: readonly Tool[];
  readonly mustCall: boolean;
  /** Whether the model sees tools of which it may call none. */
  readonly mustNotCall: boolean;
  /** The most calls in one answer: 1, or Infinity without a bound. */
  readonly maxCalls: number;
};

/** Throws `EngineError` INVALID_REQUEST for a required call that no tool matches. */
export function planToolUse(request: Pick<GenerateRequest, "tools" | "toolChoice" | "messages">): ToolUse {
  const { toolChoice } = request;
  const mode = toolChoice?.mode ?? ToolChoiceMode.AUTO;
  const tools = shownTools(request.tools, request.messages);
  const callable = callableTools(tools, toolChoice, mode);
  const mustCall = mode === ToolChoiceMode.REQUIRED || mode === ToolChoiceMode.NAMED;
  if (mustCall && callable.length === 0) {
    throw new EngineError("INVALID_REQUEST", "tool_choice: names no tool of the request.");
  }
  const once = toolChoice?.disableParallelCalls === true || mode === ToolChoiceMode.NAMED;
  return {
    callable,
    mustCall,
    mustNotCall: tools.length > 0 && callable.length === 0,
    maxCalls: once ? 1 : Number.POSITIVE_INFINITY,
  };
}

function callableTools(
  tools: readonly Tool[],
  toolChoice: ToolChoice | undefined,
  mode: ToolChoiceMode,
): readonly Tool[] {
  if (mode === ToolChoiceMode.NONE) return [];
  if (mode === ToolChoiceMode.NAMED) return tools.filter(({ name }) => name === toolChoice?.name);
  const allowed = toolChoice?.allowedNames ?? [];
  return allowed.length === 0 ? tools : tools.filter(({ name }) => allowed.includes(name));
}

/** Returns a function that creates ids for calls without one, in the form that the template requires. */
export function newCallIds(rule: ModelProfile["callIds"], history: readonly Message[]): (toolName: string) => string {
  switch (rule) {
    case "any":
      return () => `call_${randomBytes(12).toString("hex")}`;
    case "nine-characters":
      return () => randomBytes(5).toString("hex").slice(0, 9);
    case "functions.name:index": {
      let index = history
        .flatMap(({ parts }) => parts)
        .reduce((count, { kind }) => count + (kind?.$case === "toolCall" ? 1 : 0), 0);
      return (toolName) => `functions.${toolName}:${index++}`;
    }
  }
}
