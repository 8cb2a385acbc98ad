import { type Message, Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import { ApiError } from "../errors.ts";
import { type Completion, textOf } from "./completion.ts";
import { textPart } from "./parts.ts";

/* Compaction: the model writes a summary of a conversation that has grown too long, which then stands in its place. */

/** The prompt for the summary, after the whole conversation. */
const REQUEST = [
  "Stop here and write a summary of this conversation. It will replace everything above, but for the instructions and what the user wrote: whoever goes on has nothing else to know it from.",
  "Say what the user wants, with every condition and preference; what has been done and found out, and what was decided and why; the files, names, commands, values and errors that matter, exactly as they stand; what is not finished, and the very next step.",
  "Write plain text. Call no tool, do not go on with the work, and do not speak to the user.",
].join("\n\n");

/** The request follows the conversation, to reuse its cached prefix; `instructions` replace its words. */
export function summaryRequest(instructions = REQUEST): Message {
  return { role: Role.USER, parts: [textPart(instructions)] };
}

/** Returns the text for the model in place of the summarised conversation. */
export function summaryText(summary: string): string {
  return `What came before was summarised to make room. The summary:\n\n${summary}\n\nGo on from there.`;
}

/** A truncated summary counts, as the conversation is lost otherwise. Throws `ApiError` if there is none. */
export function summaryOf(completion: Completion): string {
  const summary = textOf(completion).trim();
  if (summary === "") throw new ApiError("upstream_error", "The model wrote no summary. Please try again.");
  return summary;
}
