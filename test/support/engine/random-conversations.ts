import { ReasoningEffort, ReasoningMode } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Message, Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { SeededRandom } from "../seeded-random.ts";
import { assistant, call, reasoning, system, text, tool, toolResult, user } from "./canonical.ts";

/** White space and characters at which tokenizers join or split, and halves of control tokens. */
const PIECES = [
  ...["word ", " ", "\n", "\n\n", "é", "\u0301", "漢字", "🙂", "0123", "don't", "\t", "…", "\u00a0", '{"a": 1}', "x"],
  ...["    return 1.50\n", "<|im", "<tool_call", "</thin", "|>", "〈", "|"],
] as const;
const EDGES = ["", "", " ", "\n", "\n\n", "\t", "a", " a", "\u0301", "漢字", "🙂"] as const;

/** A conversation of 1 to 8 turns, some with a system message, reasoning, calls and their results. */
export function randomConversation(random: SeededRandom) {
  const half = () => random.below(2) === 0;
  const said = () =>
    random.pick([...EDGES]) +
    Array.from({ length: 1 + random.below(30) }, () => random.pick([...PIECES])).join("") +
    random.pick([...EDGES]);
  const asks = half();
  const turn = (): readonly Message[] => [
    user(said()),
    ...(asks && half()
      ? [assistant(reasoning(said()), call("look", JSON.stringify({ at: said() }))), toolResult(said())]
      : []),
    assistant(text(said())),
  ];
  const messages = [
    ...(half() ? [system(said())] : []),
    ...Array.from({ length: random.below(8) }, turn).flat(),
    user(said()),
  ];
  const tools: readonly Tool[] = asks ? [tool("look", "Looks.")] : [];
  const mode = half() ? ReasoningMode.ENABLED : ReasoningMode.DISABLED;
  return { messages, tools: [...tools], reasoning: { mode, effort: ReasoningEffort.UNSPECIFIED } };
}
