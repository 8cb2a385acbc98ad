import { expect, test } from "vitest";
import { type ApiError, engineLost } from "../../gateway/errors.ts";
import { chat } from "../../gateway/formats/chat/request.ts";
import type { Format } from "../../gateway/formats/format.ts";
import { messages } from "../../gateway/formats/messages/request.ts";
import { responses } from "../../gateway/formats/responses/request.ts";
import { restarting } from "../../gateway/http/answer/dispatch-answer.ts";
import { contextExceeded, overloaded } from "../../gateway/upstream/call/grpc-error.ts";
import { framesOf } from "../support/checkers/stream-text.ts";
import { CONTEXT, HEAD } from "../support/events/encoding-context.ts";
import { delta, started, textStart } from "../support/events/events.ts";

/*
 * Agents decide by the wording of an error frame whether they repeat a request whose stream broke. Each row has the
 * field that an agent reads and the text that it matches, as in its released program; a missing text ends a user's
 * turn.
 */

const BODIES: ReadonlyMap<Format, object> = new Map<Format, object>([
  [chat, { model: "svc-qwen", messages: [{ role: "user", content: "hi" }], stream: true }],
  [messages, { model: "svc-qwen", messages: [{ role: "user", content: "hi" }], stream: true, max_tokens: 16 }],
  [responses, { model: "svc-qwen", input: "hi", stream: true }],
]);

/** The object of the frame that ends a begun answer with `error`. */
function errorFrame(format: Format, error: ApiError): Record<string, unknown> {
  const encoder = format.encoder(HEAD, format.prepare(BODIES.get(format), CONTEXT).options);
  for (const event of [started(), textStart(0), delta(0, "half")]) encoder.next(event);
  return { ...(framesOf(encoder.fail(error))[0]?.data as object) };
}

function field(value: unknown, ...path: readonly string[]): string {
  return String(path.reduce<unknown>((at, key) => Reflect.get(Object(at), key), value));
}

/** The pattern by which pi detects a transient failure: those of its words that our errors may contain. */
const PI = /overloaded|service.?unavailable|server.?error|internal.?error|connection.?lost|terminated/i;

/** The pattern by which Continue detects one, if it does not support the error's type. */
const CONTINUE = /premature close|premature end|connection reset|socket hang up|aborted|overloaded/i;

type Reader = {
  readonly agent: string;
  readonly format: Format;
  readonly repeats: (frame: Record<string, unknown>) => boolean;
};

const READERS: readonly Reader[] = [
  { agent: "pi", format: chat, repeats: (frame) => PI.test(field(frame, "error", "message")) },
  { agent: "pi", format: messages, repeats: (frame) => PI.test(JSON.stringify(frame)) },
  { agent: "pi", format: responses, repeats: (frame) => PI.test(field(frame, "response", "error", "message")) },
  {
    agent: "Continue",
    format: chat,
    repeats: (frame) =>
      field(frame, "error", "type") === "server_error" || CONTINUE.test(field(frame, "error", "message")),
  },
  { agent: "Continue", format: messages, repeats: (frame) => CONTINUE.test(field(frame, "error", "message")) },
  { agent: "Claude Code", format: messages, repeats: (frame) => frame.type === "error" },
  {
    agent: "Codex",
    format: responses,
    repeats: (frame) =>
      frame.type === "response.failed" &&
      !/^(context_length_exceeded|insufficient_quota|usage_not_included|invalid_prompt)$/.test(
        field(frame, "response", "error", "code"),
      ),
  },
  {
    agent: "Qwen Code",
    format: chat,
    repeats: (frame) => !/quota|invalid|not_found|content.?filter/i.test(field(frame, "error", "code")),
  },
  { agent: "the official SDK", format: chat, repeats: (frame) => typeof frame.error === "object" },
];

const PASSING: readonly (readonly [string, ApiError])[] = [
  ["an engine that was lost", engineLost("upstream_reset")],
  ["an engine that fell silent", engineLost("upstream_inter_token_timeout")],
  ["a service that restarts", restarting()],
  ["a model without room", overloaded("upstream_queue_full", undefined)],
];

const CASES = PASSING.flatMap(([what, error]) => READERS.map((reader) => ({ what, error, ...reader })));

test.each(CASES)("$agent repeats a request after $what", ({ error, format, repeats }) => {
  expect(repeats(errorFrame(format, error))).toBe(true);
});

/** The patterns that make pi and Continue shorten their conversation instead of repeating the request. */
const TOO_LONG = /prompt is too long|exceeds the|maximum context length|reduce the length|too many tokens|token limit/i;

test.each(PASSING)("no agent takes %s for a prompt that is too long", (_, error) => {
  for (const format of BODIES.keys()) expect(JSON.stringify(errorFrame(format, error))).not.toMatch(TOO_LONG);
  expect(JSON.stringify(errorFrame(chat, contextExceeded(2, 1)))).toMatch(TOO_LONG);
});
