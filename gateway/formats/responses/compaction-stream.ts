import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ApiError } from "../../errors.ts";
import { CompletionFold } from "../completion.ts";
import type { Head, StreamEncoder } from "../format.ts";
import { compactionItem } from "./compaction.ts";
import type { ResponsesStream } from "./stream.ts";

/**
 * Writes the event stream of a response that compacts its conversation. The model's text is collected, as the caller
 * cannot read it: the stream has keep-alives, and one whole item at the end.
 */
export class CompactionStream implements StreamEncoder {
  readonly #head: Head;
  readonly #stream: ResponsesStream;
  readonly #fold = new CompletionFold();

  constructor(head: Head, stream: ResponsesStream) {
    this.#head = head;
    this.#stream = stream;
  }

  /** Returns the frames of an event; "" for all but the first one and the last one. */
  next(event: Event): string {
    this.#fold.next(event);
    switch (event.kind?.$case) {
      case "started":
        return this.#stream.next(event);
      case "finished":
        return this.#finish();
      default:
        return "";
    }
  }

  /** Collects a text, and returns "". */
  text(text: string): string {
    this.#fold.text(text);
    return "";
  }

  /** Returns `response.failed`, which ends the stream; "" after the end. */
  fail(error: ApiError): string {
    return this.#stream.fail(error);
  }

  keepAlive(): string {
    return this.#stream.keepAlive();
  }

  #finish(): string {
    const completion = this.#fold.result();
    try {
      return this.#stream.complete(compactionItem(this.#head, completion), completion.finished);
    } catch (error) {
      if (error instanceof ApiError) return this.#stream.fail(error);
      throw error;
    }
  }
}
