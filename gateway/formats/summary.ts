import type { Event } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import { ApiError } from "../errors.ts";
import { type Completion, CompletionFold, textOf } from "./completion.ts";
import type { StreamEncoder } from "./format.ts";
import { textPart } from "./parts.ts";

/* Compaction: the model writes a summary of a conversation that has grown too long, which then stands in its place. */

/** The prompt for the summary, after the whole conversation. */
const REQUEST = [
  "Stop here and write a summary of this conversation. It will replace everything above, but for the instructions and what the user wrote: the next reader has nothing else to know it from.",
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

/** The stream of a reply that is a summary: keep-alives, and what `write` makes of the whole completion at the end. */
export class SummaryStream implements StreamEncoder {
  readonly #stream: StreamEncoder;
  readonly #write: (completion: Completion) => string;
  readonly #fold = new CompletionFold();

  /** `write` may throw `ApiError`, with which the stream then fails. */
  constructor(stream: StreamEncoder, write: (completion: Completion) => string) {
    this.#stream = stream;
    this.#write = write;
  }

  next(event: Event): string {
    this.#fold.next(event);
    if (event.kind?.$case === "started") return this.#stream.next(event);
    if (event.kind?.$case !== "finished") return "";
    try {
      return this.#write(this.#fold.result());
    } catch (error) {
      if (error instanceof ApiError) return this.#stream.fail(error);
      throw error;
    }
  }

  text(text: string): string {
    this.#fold.text(text);
    return "";
  }

  fail(error: ApiError): string {
    return this.#stream.fail(error);
  }

  keepAlive(): string {
    return this.#stream.keepAlive();
  }
}
