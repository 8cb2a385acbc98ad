import { describe, expect, test } from "vitest";
import type * as z from "zod";
import { ApiError } from "../../../../gateway/errors.ts";
import { chat } from "../../../../gateway/formats/chat/request.ts";
import { CompletionFold } from "../../../../gateway/formats/completion.ts";
import { errorBody } from "../../../../gateway/formats/error-envelope.ts";
import type { Format } from "../../../../gateway/formats/format.ts";
import { countTokens, messages } from "../../../../gateway/formats/messages/request.ts";
import { compaction, inputTokens, responses } from "../../../../gateway/formats/responses/request.ts";
import { OPERATIONS, openApiDocument } from "../../../../gateway/reference/openapi.ts";
import type { Event } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { framesOf } from "../../../support/checkers/stream-text.ts";
import { CONTEXT, HEAD as PLAIN_HEAD } from "../../../support/events/encoding-context.ts";
import { blockEnd, delta, finished, started, textStart, toolCallStart } from "../../../support/events/events.ts";
import { TRANSCRIPTS, transcriptEvents } from "../../../support/events/transcripts.ts";
import { prepared } from "../../../support/gateway/prepared-answer.ts";
import { documentedPaths, pathsOf, undocumented } from "../../../support/schemas/documented-paths.ts";
import { PublishedContract } from "../../../support/schemas/published-contract.ts";

/*
 * The real output of the formats is checked against the reference: all fields of all answers of the golden tests, whole
 * and streamed, with every option that changes their form.
 */

const DOCUMENT = openApiDocument(["svc-qwen"]);
const SCHEMAS = DOCUMENT.components.schemas;
const contract = new PublishedContract(DOCUMENT);

/** The reason of a cache miss is known at the start of some streams, and at the end of others. */
const MISS = { lostTokens: 7, reason: "client_changed", changedPart: "tools" } as const;
let asked = 0;
const HEAD = { ...PLAIN_HEAD, cacheMiss: () => (asked++ % 3 === 0 ? undefined : MISS) };

const alternative = { token: "a", tokenBytes: Buffer.from("a"), logprob: -0.5 };
const logprob = { ...alternative, alternatives: [alternative] };

const WITH_LOGPROBS: readonly Event[] = [
  started(),
  textStart(0),
  { kind: { $case: "blockDelta", value: { index: 0, text: "a", logprobs: [logprob] } } },
  blockEnd(0),
  finished(),
];

const ANSWERS: readonly (readonly Event[])[] = [
  WITH_LOGPROBS,
  ...["ns__read", "exec", "tool_search"].map((name) => [
    ...[started(), toolCallStart(0, name), delta(0, '{"input": "a"}'), blockEnd(0), finished()],
  ]),
  ...["shell", "local_shell", "apply_patch"].map((name) => [
    ...[started(), toolCallStart(0, name), delta(0, '{"path": "a"}'), blockEnd(0), finished()],
  ]),
  ...TRANSCRIPTS.map(transcriptEvents),
];

const turn = { messages: [{ role: "user", content: "hi" }], max_tokens: 100 };
const tools = [
  { type: "namespace", name: "ns", tools: [{ type: "function", name: "read" }] },
  { type: "custom", name: "exec" },
  { type: "tool_search", execution: "client" },
  ...["shell", "local_shell", "apply_patch"].map((type) => ({ type })),
];
const LOGPROBS = "message.output_text.logprobs";

/** A format, its operation, and the bodies that give different forms of answers. */
const FORMATS: readonly (readonly [Format, "chat" | "messages" | "responses", readonly object[]])[] = [
  [
    chat,
    "chat",
    [
      { ...turn, stream_options: { include_usage: true }, service_tier: "auto" },
      { ...turn, logprobs: true },
    ],
  ],
  [
    messages,
    "messages",
    [
      { ...turn, diagnostics: {} },
      { ...turn, thinking: { type: "adaptive", display: "omitted" } },
      { ...turn, compaction: { type: "summarize" } },
    ],
  ],
  [
    responses,
    "responses",
    [
      { input: "hi", reasoning: { summary: "auto" }, stream_options: { include_obfuscation: true } },
      { input: "hi", include: ["reasoning.encrypted_content", LOGPROBS], tools },
      { input: "hi", prompt_cache_options: { comparison_response_id: "resp_1" } },
    ],
  ],
];

const ERROR = new ApiError("server_is_overloaded", "No room.");

/** The streams that answer these bodies: whole, after silence, and after a failure. */
function streamsOf(format: Format, bodies: readonly object[]): readonly string[] {
  return bodies.flatMap((body) =>
    ANSWERS.flatMap((events) => {
      const answer = prepared(format, { model: "svc-qwen", stream: true, ...body }, CONTEXT);
      const whole = answer.encoder(HEAD);
      const broken = answer.encoder(HEAD);
      return [
        whole.keepAlive() + events.map((event) => whole.next(event)).join(""),
        events
          .slice(0, -1)
          .map((event) => broken.next(event))
          .join("") + broken.fail(ERROR),
      ];
    }),
  );
}

function repliesOf(format: Format, bodies: readonly object[]): readonly object[] {
  return bodies.flatMap((body) =>
    ANSWERS.flatMap((events) => {
      const fold = new CompletionFold();
      for (const event of events) fold.next(event);
      try {
        return [prepared(format, { model: "svc-qwen", ...body }, CONTEXT).reply(HEAD, fold.result())];
      } catch (error) {
        // An answer without text is no summary.
        if (error instanceof ApiError) return [];
        throw error;
      }
    }),
  );
}

const nameOf = (schema: z.ZodType): string => String(schema.meta()?.id);

/** The schema of a frame's event: by its type, else the one that accepts its fields. */
function eventOf(frame: unknown, events: readonly z.ZodType[]): z.ZodType | undefined {
  return events.find((event) => event.safeParse(frame).success);
}

const PATHS = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" } as const;

describe.each(FORMATS)("$name", (format, operation, bodies) => {
  const path = PATHS[operation];
  const { reply, events = [] } = OPERATIONS[operation];
  if (!reply) throw new Error("it has a reply");

  test("the replies of a format hold exactly the documented fields", () => {
    const replies = repliesOf(format, bodies);
    for (const value of replies) {
      expect(contract.replies(path, 200, value)).toBe(true);
      expect(contract.replies(path, 200, { ...value, id: 1 })).toBe(false);
    }
    const documented = documentedPaths(SCHEMAS, [nameOf(reply)]);
    const written = new Set(replies.flatMap((value) => pathsOf(value)));
    expect(undocumented(written, documented)).toEqual([]);
    // A folded reply never has a failure: that is an HTTP error with its own status.
    const missing = [...documented.all].filter((path) => !written.has(path) && !path.startsWith("error."));
    expect(missing).toEqual([]);
  });

  test("the events of a format hold exactly the documented fields", () => {
    const written = new Map<string, Set<string>>(events.map((event) => [nameOf(event), new Set()]));
    const streams = streamsOf(format, bodies);
    expect(streams.flatMap((text) => contract.unknownFrames(path, text))).toEqual([]);
    for (const { data: frame } of streams.flatMap(framesOf)) {
      if (typeof frame !== "object") continue;
      const event = eventOf(frame, events);
      if (event) for (const path of pathsOf(frame)) written.get(nameOf(event))?.add(path);
    }
    for (const [name, paths] of written) {
      const documented = documentedPaths(SCHEMAS, [name]);
      expect([name, undocumented(paths, documented)]).toEqual([name, []]);
    }
    const all = new Set([...written.values()].flatMap((paths) => [...paths]));
    const documented = documentedPaths(SCHEMAS, events.map(nameOf));
    // The error of a thread has details; this test does not cover those answers.
    const missing = [...documented.all].filter((path) => !all.has(path) && !path.startsWith("error.details"));
    expect(missing).toEqual([]);
    expect([...written].filter(([, paths]) => paths.size === 0).map(([name]) => name)).toEqual([]);
  });
});

test.each(["a", "b"] as const)("errors of envelope %s hold the documented fields", (envelope) => {
  const details = { error_code: "thread_unsupported_request" };
  const body = errorBody(new ApiError("invalid_value", "No.", { path: ["a", 0], details }), envelope, "req_1");
  const documented = documentedPaths(SCHEMAS, [envelope === "a" ? "ErrorA" : "ErrorB"]);
  expect(pathsOf(body).toSorted()).toEqual([...documented.all].toSorted());
});

test("a compaction holds the documented fields, and so does a response that is one", () => {
  const fold = new CompletionFold();
  for (const event of WITH_LOGPROBS) fold.next(event);
  const image_url = `data:image/png;base64,${Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "latin1").toString("base64")}`;
  const content = [
    { type: "input_text", text: "hi" },
    { type: "input_image", image_url },
  ];
  const body = { model: "svc-qwen", input: [{ role: "user", content }, { type: "compaction_trigger" }] };
  const context = { ...CONTEXT, acceptsImages: () => true };
  const reply = prepared(compaction, body, context).reply(HEAD, fold.result());
  OPERATIONS.compact.reply?.parse(reply);
  expect([...new Set(pathsOf(reply))].toSorted()).toEqual(
    [...documentedPaths(SCHEMAS, ["CompactedResponse"]).all].toSorted(),
  );
  OPERATIONS.responses.reply?.parse(prepared(responses, body, context).reply(HEAD, fold.result()));
});

test.each([countTokens, inputTokens])("a count of $name holds the documented fields", (format) => {
  const name = format === countTokens ? "TokenCount" : "InputTokenCount";
  expect(pathsOf(format.reply(3)).toSorted()).toEqual([...documentedPaths(SCHEMAS, [name]).all].toSorted());
});
