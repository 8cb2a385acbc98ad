import type { WorkOrder } from "../../deploy/runtime/threads/work-threads.ts";
import type { Part } from "../../proto/gen/svc/inference/v1/messages.ts";
import { type CallerWork, WorkGivenUp } from "../caller-work/caller-work.ts";
import { type Conversation, TemplateRefusal } from "../conversation/chat-template.ts";
import {
  type PromptFormat,
  type PromptRenderer,
  packConversation,
  type RenderedPrompt,
} from "../conversation/prompt-renderer.ts";
import { EngineError } from "../errors.ts";
import type { OutputMarkers } from "../output-parser/markers.ts";
import { type ModelProfile, textCallsOf } from "../profiles/profile.ts";
import type { LoopSlices } from "./loop-slices.ts";

/** Costs in UTF-16 units of plain text, 50 of which take a microsecond: a message 100 µs, JSON 1 µs a unit. */
const MESSAGE_UNITS = 5_000;
const JSON_UNITS = 50;
/** The largest rendering on the main thread, which streams tokens: about 3 ms. */
const SMALL_UNITS = 150_000;

function isSmall({ messages, tools }: Pick<Conversation, "messages" | "tools">): boolean {
  let units = 0;
  for (const { parts } of messages) {
    units += MESSAGE_UNITS;
    for (const part of parts) units += unitsOf(part);
    if (units > SMALL_UNITS) return false;
  }
  for (const { description, parametersJsonSchema } of tools) {
    units += MESSAGE_UNITS + description.length + JSON_UNITS * parametersJsonSchema.length;
    if (units > SMALL_UNITS) return false;
  }
  return units <= SMALL_UNITS;
}

function unitsOf({ kind }: Part): number {
  switch (kind?.$case) {
    case "text":
    case "reasoning":
      return kind.value.text.length;
    case "toolCall":
      return MESSAGE_UNITS + JSON_UNITS * kind.value.argumentsJson.length;
    case "toolResult":
      return MESSAGE_UNITS + kind.value.content.reduce((sum, part) => sum + unitsOf(part), 0);
    default:
      return 0;
  }
}

/** Returns the part of a prompt's format that its family decides. */
export function familyFormat(
  profile: ModelProfile,
  { reasoning }: OutputMarkers,
): Omit<PromptFormat, "source" | "bosToken" | "eosToken" | "controlTokens" | "maxUnits" | "cutsAtWords"> {
  return {
    renderer: profile.renderer,
    reasoningOn: profile.thinking?.on ?? {},
    reasoningOff: profile.thinking?.off ?? {},
    historyArguments: profile.historyArguments,
    historyReasoning: profile.historyReasoning,
    callIds: profile.callIds,
    textCalls: textCallsOf(profile),
    reasoningOpen: reasoning?.open,
  };
}

/** Renders conversations: small ones on the main thread, others on worker threads. */
export class ConversationRendering {
  readonly #renderer: PromptRenderer;
  readonly #format: PromptFormat;
  readonly #work: Pick<CallerWork, "run">;
  readonly #slices: LoopSlices;

  /** `format` is that of the renderer. */
  constructor(renderer: PromptRenderer, format: PromptFormat, work: Pick<CallerWork, "run">, slices: LoopSlices) {
    this.#renderer = renderer;
    this.#format = format;
    this.#work = work;
    this.#slices = slices;
  }

  /** Throws `EngineError` INVALID_REQUEST, QUEUE_FULL, or why the caller left. */
  async render(conversation: Conversation, order: WorkOrder): Promise<RenderedPrompt> {
    const nextSlice = () => this.#slices.nextUnlessLeft(order.tenant, order.signal);
    await nextSlice();
    if (isSmall(conversation)) {
      try {
        return this.#renderer.render(conversation);
      } catch (error) {
        // Finding the rejected part takes many renderings.
        if (!(error instanceof TemplateRefusal)) throw error;
      }
    }
    order.onMove?.();
    const packed = await packConversation(conversation, nextSlice);
    try {
      return await this.#work.run("render", { format: this.#format, conversation: packed }, order);
    } catch (error) {
      if (!(error instanceof WorkGivenUp)) throw error;
      throw new EngineError("INVALID_REQUEST", "messages: they take too long to be rendered.", {}, error);
    }
  }
}
