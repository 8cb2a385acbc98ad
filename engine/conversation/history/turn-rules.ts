import { type Message, type Part, Role, type Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { ANY_ORDER, SYSTEM_PLACES, says, type TurnRules, textPart } from "./model-history.ts";

// Words that no template writes, so that they are found in a prompt. The ids have the nine characters that Mistral asks for.
const CALLS = ["aaaaaaaa1", "aaaaaaaa2"] as const;
const [FIRST_ARGUMENT, SECOND_ARGUMENT] = ["hither", "yonder"];
const call = (callId: string): Part => ({
  kind: {
    $case: "toolCall",
    value: {
      callId,
      name: "look",
      argumentsJson: JSON.stringify({ at: callId === CALLS[0] ? FIRST_ARGUMENT : SECOND_ARGUMENT }),
    },
  },
});
const reports = (callId: string): Message =>
  says(Role.TOOL, {
    kind: { $case: "toolResult", value: { callId, name: "look", content: [textPart("report")], isError: false } },
  });

const [OPENING, QUESTION, LATER, FOLLOW_UP] = ["overture", "enquiry", "afterthought", "sequel"];
const opening = says(Role.SYSTEM, textPart(OPENING));
const question = says(Role.USER, textPart(QUESTION));
const later = says(Role.SYSTEM, textPart(LATER));
const followUp = says(Role.USER, textPart(FOLLOW_UP));
const answer = says(Role.ASSISTANT, textPart("reply"));
const lookUp = [question, says(Role.ASSISTANT, call(CALLS[0])), reports(CALLS[0])] as const;

/**
 * Conversations of one question each to a template. It takes an order of messages if the prompt has their words in that
 * order; most templates refuse one that they do not take, some drop or move a message silently.
 */
export const TRIALS = {
  plain: [question, answer, followUp],
  systemFirst: [opening, question, answer, followUp],
  systemLater: [opening, question, answer, later, followUp],
  usersTogether: [question, followUp],
  toolLast: lookUp,
  userBehindTool: [...lookUp, followUp],
  twoCalls: [question, says(Role.ASSISTANT, ...CALLS.map(call)), ...CALLS.map(reports)],
} as const satisfies Readonly<Record<string, readonly Message[]>>;

export const TRIAL_TOOL: Tool = {
  name: "look",
  description: "Looks.",
  parametersJsonSchema: "{}",
  strict: false,
  deferred: false,
};

type Trial = keyof typeof TRIALS;

/**
 * Determines the rules from rendered trials. `render` returns undefined for a refused conversation. Where even a plain
 * conversation shows nothing, as with a template that fails for another reason, no rule is assumed.
 *
 *     a template that drops a later system message   "afterthought" is missing in systemLater   "first"
 *     one that moves it to the beginning             it is found before "enquiry"               "first"
 *     one that refuses two users in a row            usersTogether has no prompt                alternates
 */
export function turnRulesOfRendering(render: (messages: readonly Message[]) => string | undefined): TurnRules {
  /** Whether the prompt of a trial has the words, in this order. */
  const stands = (trial: Trial, ...words: readonly string[]) => {
    const prompt = render(TRIALS[trial]);
    const positions = words.map((word) => prompt?.indexOf(word) ?? -1);
    return positions.every((position, index) => position > (positions[index - 1] ?? -1));
  };
  if (!stands("plain", QUESTION, FOLLOW_UP)) return ANY_ORDER;
  const takesTools = stands("toolLast", QUESTION);
  // Some templates write the first call of a turn and silently drop the others.
  const dropsCalls = stands("toolLast", FIRST_ARGUMENT) && !stands("twoCalls", FIRST_ARGUMENT, SECOND_ARGUMENT);
  return {
    systemMessages: stands("systemLater", OPENING, QUESTION, LATER, FOLLOW_UP)
      ? "anywhere"
      : stands("systemFirst", OPENING)
        ? "first"
        : "nowhere",
    alternates:
      !stands("usersTogether", QUESTION, FOLLOW_UP) || (takesTools && !stands("userBehindTool", QUESTION, FOLLOW_UP)),
    singleCalls: takesTools && (dropsCalls || !stands("twoCalls", QUESTION)),
  };
}

/** The size of a prompt in tokens; `refused` if the template refuses the conversation. */
export type PromptCount = number | "refused" | "unknown";

/**
 * Determines the rules from prompt sizes, of an engine that counts a prompt's tokens and does not show it; the family's
 * `known` rules apply where sizes show nothing. A message that is not refused and makes the prompt no longer was dropped.
 * A moved one shows in no size, so of the measured rule on system messages and the known one the stricter applies.
 */
export async function turnRulesOfCounts(
  count: (messages: readonly Message[]) => Promise<PromptCount>,
  known: TurnRules,
): Promise<TurnRules> {
  const sizes = new Map<Trial, Promise<PromptCount>>();
  const size = (trial: Trial) => {
    const counted = sizes.get(trial) ?? count(TRIALS[trial]);
    sizes.set(trial, counted);
    return counted;
  };
  /** Whether the additional messages of a trial were refused or dropped; false if unknown. */
  const isRefused = async (trial: Trial, without: Trial) => {
    const less = await size(without);
    if (typeof less !== "number") return false;
    const more = await size(trial);
    return more === "refused" || (typeof more === "number" && more <= less);
  };
  const found = (await isRefused("systemFirst", "plain"))
    ? "nowhere"
    : (await isRefused("systemLater", "systemFirst"))
      ? "first"
      : "anywhere";
  // The last of the two in the list is the stricter.
  const [least] = SYSTEM_PLACES.filter((place) => place === found || place === known.systemMessages).slice(-1);
  const alternates =
    known.alternates ||
    (typeof (await size("plain")) === "number" && (await size("usersTogether")) === "refused") ||
    (await isRefused("userBehindTool", "toolLast"));
  const singleCalls = known.singleCalls || (await isRefused("twoCalls", "toolLast"));
  return { systemMessages: least ?? found, alternates, singleCalls };
}
