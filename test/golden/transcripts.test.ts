import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { engineLost } from "../../gateway/errors.ts";
import { chat } from "../../gateway/formats/chat/request.ts";
import { CompletionFold } from "../../gateway/formats/completion.ts";
import type { Format } from "../../gateway/formats/format.ts";
import { messages } from "../../gateway/formats/messages/request.ts";
import { responses } from "../../gateway/formats/responses/request.ts";
import { FinishReason } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { CONTEXT, HEAD } from "../support/events/encoding-context.ts";
import { blockEnd, delta, finished, started, toolCallStart } from "../support/events/events.ts";
import { TRANSCRIPTS, transcriptEvents } from "../support/events/transcripts.ts";

/*
 * One canonical event list, three formats, streamed and folded. A folder under transcripts/ is a test; its expected
 * files are reviewed like code, and rewritten only by hand (vitest -u).
 */

const FOLDER = join(import.meta.dirname, "transcripts");

const turn = [{ role: "user", content: "hi" }];

const FORMATS: readonly { readonly format: Format; readonly body: object }[] = [
  { format: chat, body: { model: "svc-qwen", messages: turn, stream_options: { include_usage: true } } },
  { format: messages, body: { model: "svc-qwen", messages: turn, max_tokens: 100 } },
  {
    format: responses,
    body: {
      model: "svc-qwen",
      input: "hi",
      reasoning: { summary: "auto" },
      include: ["reasoning.encrypted_content"],
    },
  },
];

describe.each(TRANSCRIPTS)("transcript %s", (scenario) => {
  const events = transcriptEvents(scenario);

  test.each(FORMATS)("a recorded answer streams as $format.name", async ({ format, body }) => {
    const encoder = format.encoder(HEAD, format.prepare({ ...body, stream: true }, CONTEXT).options);
    const text = events.map((event) => encoder.next(event)).join("");
    await expect(text).toMatchFileSnapshot(join(FOLDER, scenario, `${format.name}.sse`));
  });

  test.each(FORMATS)("a recorded answer folds to $format.name", async ({ format, body }) => {
    const fold = new CompletionFold();
    for (const event of events) fold.next(event);
    const reply = format.reply(HEAD, fold.result(), format.prepare(body, CONTEXT).options);
    const text = `${JSON.stringify(reply, undefined, 2)}\n`;
    await expect(text).toMatchFileSnapshot(join(FOLDER, scenario, `${format.name}.json`));
  });
});

describe("calls of custom tools", () => {
  const tools = [{ type: "namespace", name: "functions", tools: [{ type: "custom", name: "exec" }] }];
  const body = { model: "svc-qwen", input: "hi", tools };
  const pieces = ['{"inp', 'ut": "text(\\"h', "\\u00", 'e9\\")\\', 'nexit"', "}"];
  const events = [
    ...[started(), toolCallStart(0, "functions__exec"), ...pieces.map((piece) => delta(0, piece)), blockEnd(0)],
    ...[toolCallStart(1, "read"), delta(1, "{}"), blockEnd(1), finished(FinishReason.TOOL_CALLS)],
  ];

  test("calls of custom tools stream as responses", async () => {
    const encoder = responses.encoder(HEAD, responses.prepare({ ...body, stream: true }, CONTEXT).options);
    const text = events.map((event) => encoder.next(event)).join("");
    await expect(text).toMatchFileSnapshot(join(import.meta.dirname, "custom-calls", "responses.sse"));
  });

  test("calls of custom tools fold to responses", async () => {
    const fold = new CompletionFold();
    for (const event of events) fold.next(event);
    const reply = responses.reply(HEAD, fold.result(), responses.prepare(body, CONTEXT).options);
    const text = `${JSON.stringify(reply, undefined, 2)}\n`;
    await expect(text).toMatchFileSnapshot(join(import.meta.dirname, "custom-calls", "responses.json"));
  });
});

describe("an engine lost in mid-stream", () => {
  const lost = engineLost("upstream_reset");

  test.each(FORMATS.flatMap((each) => [9, 12].map((events) => ({ ...each, events }))))(
    "ends $format.name in its error frame, after $events events",
    async ({ format, body, events }) => {
      const encoder = format.encoder(HEAD, format.prepare({ ...body, stream: true }, CONTEXT).options);
      const begun = transcriptEvents("reasoning_text_two_tools").slice(0, events);
      const text = begun.map((event) => encoder.next(event)).join("") + encoder.fail(lost);
      const folder = events === 9 ? "engine-lost" : "engine-lost-in-call";
      await expect(text).toMatchFileSnapshot(join(import.meta.dirname, folder, `${format.name}.sse`));
    },
  );
});
