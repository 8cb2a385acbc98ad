import { chat } from "../../../gateway/formats/chat/request.ts";
import type { Format } from "../../../gateway/formats/format.ts";
import { messages } from "../../../gateway/formats/messages/request.ts";
import { responses } from "../../../gateway/formats/responses/request.ts";
import { CHAT_TRANSITIONS, ChatChecker } from "./chat-checker.ts";
import type { Frame } from "./frames.ts";
import { MESSAGES_TRANSITIONS, MessagesChecker } from "./messages-checker.ts";
import { ResponsesChecker } from "./responses-checker.ts";
import { RESPONSES_TRANSITIONS } from "./responses-transitions.ts";

/** A checker of one stream, frame by frame; both methods throw `StreamFault`. */
export type Checker = { take(frame: Frame): void; end(): void };

/** A kind of body that changes the contents of its stream. */
export type Variant = {
  readonly body: object;
  /** Makes the checker of one stream; `taken` collects the steps of the checker's table that streams take. */
  checker(taken?: Set<string>): Checker;
};

/** A format with its checker's table and all the variants of its bodies. */
export type CheckedFormat = {
  readonly format: Format;
  /** The allowed steps: by state and kind of frame, the next state. */
  readonly transitions: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** The kinds of bodies; the golden transcripts were made with the first one. */
  readonly variants: readonly [Variant, ...Variant[]];
};

const turn = [{ role: "user", content: "hi" }];

function chatVariant(includeUsage: boolean): Variant {
  return {
    body: { model: "svc-qwen", messages: turn, stream: true, stream_options: { include_usage: includeUsage } },
    checker: (taken) => new ChatChecker({ includeUsage }, taken),
  };
}

function messagesVariant(thinking: "shown" | "omitted" | "none", field: object): Variant {
  return {
    body: { model: "svc-qwen", messages: turn, stream: true, max_tokens: 4_096, thinking: field },
    checker: (taken) => new MessagesChecker({ thinking }, taken),
  };
}

function responsesVariant(reasoning: "none" | "summary" | "text", sealed: boolean): Variant {
  return {
    body: {
      model: "svc-qwen",
      input: "hi",
      stream: true,
      reasoning: { summary: reasoning === "summary" ? "auto" : null },
      include: sealed ? ["reasoning.encrypted_content"] : [],
    },
    checker: (taken) => new ResponsesChecker({ reasoning, sealed }, taken),
  };
}

export const CHECKED_FORMATS: readonly CheckedFormat[] = [
  { format: chat, transitions: CHAT_TRANSITIONS, variants: [chatVariant(true), chatVariant(false)] },
  {
    format: messages,
    transitions: MESSAGES_TRANSITIONS,
    variants: [
      messagesVariant("shown", { type: "enabled", budget_tokens: 1_024 }),
      messagesVariant("omitted", { type: "enabled", budget_tokens: 1_024, display: "omitted" }),
      messagesVariant("none", { type: "disabled" }),
    ],
  },
  {
    format: responses,
    transitions: RESPONSES_TRANSITIONS,
    variants: [responsesVariant("summary", true), responsesVariant("text", true), responsesVariant("none", false)],
  },
];
