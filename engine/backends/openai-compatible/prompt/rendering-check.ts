import {
  CountTokensRequest,
  type GenerateRequest,
  ReasoningEffort,
  ReasoningMode,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { says, textPart } from "../../../conversation/history/model-history.ts";
import { TRIAL_TOOL, TRIALS } from "../../../conversation/history/turn-rules.ts";
import { EngineError } from "../../../errors.ts";
import { VOCABULARY_TEXT } from "../../model-revision.ts";
import type { Ask } from "../engines/engine-dialect.ts";
import { type RequestSettings, toChatPrompt } from "../request/request.ts";
import type { OwnPrompts } from "./own-prompts.ts";

/** One prompt in so many is rendered by the engine, too. */
const SAMPLED = 1_000;

type Asked = Pick<CountTokensRequest, "messages" | "tools" | "reasoning">;

/** White space and characters beside the template's control tokens, where a tokenizer might join across them. */
const EDGES = ["", " a", "a ", "\n", "\n\nx\n", "é", "\u0301x", "漢字", "7", "don't", "\t{\n", "…", "🙂"];

/** Returns the conversations whose prompts are compared at the start. */
function trials(profile: RequestSettings["profile"]): readonly Asked[] {
  const modes = profile.thinking ? [ReasoningMode.DISABLED, ReasoningMode.ENABLED] : [ReasoningMode.DISABLED];
  const efforts = [
    ReasoningEffort.UNSPECIFIED,
    ...(profile.thinking ? [ReasoningEffort.LOW, ReasoningEffort.HIGH] : []),
  ];
  const shapes = Object.values(TRIALS).flatMap((messages) => [
    { messages, tools: [] },
    { messages, tools: [TRIAL_TOOL] },
  ]);
  const edges = EDGES.map((edge) => ({
    messages: [
      says(Role.USER, textPart(`${edge}x${edge}`)),
      says(Role.ASSISTANT, textPart(`y${edge}`)),
      says(Role.USER, textPart(edge === "" ? VOCABULARY_TEXT : `${edge}z`)),
    ],
    tools: [],
  }));
  return [
    ...modes.flatMap((mode) =>
      shapes.map((shape) => ({ ...shape, reasoning: { mode, effort: ReasoningEffort.UNSPECIFIED } })),
    ),
    ...edges.map((edge) => ({
      ...edge,
      reasoning: { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED },
    })),
    ...efforts.map((effort) => ({
      ...{ messages: TRIALS.plain, tools: [] },
      reasoning: {
        mode: effort === ReasoningEffort.UNSPECIFIED ? ReasoningMode.UNSPECIFIED : ReasoningMode.ENABLED,
        effort,
      },
    })),
  ];
}

/** Compares own prompts with the engine's: at the start for trials, later for one answer in a thousand. */
export class RenderingCheck {
  readonly #own: OwnPrompts;
  readonly #settings: RequestSettings;
  readonly #random: () => number;
  readonly #seen = new Set<string>();

  /** `random` is uniform over [0, 1). */
  constructor(own: OwnPrompts, settings: RequestSettings, random: () => number) {
    this.#own = own;
    this.#settings = settings;
    this.#random = random;
  }

  /** Resolves to why own prompts are not used; undefined where all trials are equal. Throws why the caller left. */
  async start(ask: Ask, signal: AbortSignal): Promise<string | undefined> {
    for (const trial of trials(this.#settings.profile)) {
      const difference = await this.#difference(trial, ask, signal);
      if (difference === undefined) continue;
      this.#own.switchOff();
      return `prompts are rendered by the engine, as those of the node differ from them (${difference}): the files beside tokenizerFile are not those of the engine's model, or its template is code`;
    }
    return undefined;
  }

  /** Compares the prompt of a complete answer, of the first of each form and one in a thousand. Resolves as `start` does. */
  async answered(request: GenerateRequest, ask: Ask, signal: AbortSignal): Promise<string | undefined> {
    if (!this.#own.isOn || !isExact(request, this.#settings)) return undefined;
    const form = `${request.tools.length > 0} ${request.reasoning?.mode} ${request.reasoning?.effort}`;
    if (this.#seen.has(form) && this.#random() >= 1 / SAMPLED) return undefined;
    this.#seen.add(form);
    const difference = await this.#difference(request, ask, signal);
    if (difference === undefined) return undefined;
    this.#own.switchOff();
    return `prompts are rendered by the engine from now on, as one of the node differs (${difference})`;
  }

  /** Resolves to the place of the first different token; undefined for equal prompts, and refused ones. */
  async #difference(asked: Asked, ask: Ask, signal: AbortSignal): Promise<string | undefined> {
    const request = { ...CountTokensRequest.create(), ...asked };
    const order = { tenant: "", signal };
    try {
      const own = await this.#own.render(request, "", ask, order);
      const { tokens } = await this.#settings.dialect.render(ask, toChatPrompt(request, this.#settings));
      if (!own) return "the node renders none where the engine does";
      const at = tokens.findIndex((token, index) => token !== own.tokens[index]);
      if (at < 0 && tokens.length === own.tokens.length) return undefined;
      return `token ${at < 0 ? tokens.length : at} of ${tokens.length}`;
    } catch (error) {
      // A prompt that the engine refuses is refused in its words.
      if (error instanceof EngineError && ["INVALID_REQUEST", "ENGINE_ERROR"].includes(error.reason)) return undefined;
      throw error;
    }
  }
}

/**
 * Whether the engine's own way keeps the exact text: it parses arguments, and is sent no spelled control token. Encoders
 * in code close an answer that the caller has begun.
 */
function isExact({ messages, tools }: GenerateRequest, { marks, profile }: RequestSettings): boolean {
  if (profile.renderer && messages.at(-1)?.role === Role.ASSISTANT) return false;
  const isPlain = (text: string) => !marks.isSpelledIn(text);
  const isKept = (json: string) => isPlain(json) && !/\\|\d[.eE]|-0/.test(json);
  return (
    tools.every(({ description, parametersJsonSchema }) => isPlain(description) && isKept(parametersJsonSchema)) &&
    messages.every(({ parts }) =>
      parts.every(({ kind }) => {
        switch (kind?.$case) {
          case "text":
          case "reasoning":
            return isPlain(kind.value.text);
          case "toolCall":
            return isKept(kind.value.argumentsJson);
          case "toolResult":
            return kind.value.content.every((part) => part.kind?.$case !== "text" || isPlain(part.kind.value.text));
          default:
            return true;
        }
      }),
    )
  );
}
