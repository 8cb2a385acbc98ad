import Anthropic, { APIError } from "@anthropic-ai/sdk";
import { describe, expect, test } from "vitest";
import { ApiError } from "../../../../../gateway/errors.ts";
import { messages } from "../../../../../gateway/formats/messages/request.ts";
import { type Event, FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { prepared } from "../../../../support/gateway/prepared-answer.ts";
import { block, context, finished, folded, head, minimal, started, usage } from "./fixture.ts";

const progress: Event = { kind: { $case: "progress", value: { queuePosition: 1, prefilledTokens: 9, step: 0 } } };
const lost = new ApiError("engine_unavailable", "The engine was lost.");

function encoder(more: object = {}) {
  return prepared(messages, { ...minimal, stream: true, ...more }, context).encoder(head);
}

function streamed(events: readonly Event[], more: object = {}): string {
  const encode = encoder(more);
  return events.map((event) => encode.next(event)).join("");
}

type Frame = { readonly event: string; readonly data: { readonly type: string; readonly [field: string]: unknown } };

function frames(text: string): readonly Frame[] {
  return text
    .split("\n\n")
    .filter((frame) => frame !== "")
    .map((frame) => {
      const match = /^event: ([a-z_]+)\ndata: ([^\n]+)$/.exec(frame);
      if (!match) throw new Error("not a frame of this format");
      return { event: match[1] ?? "", data: JSON.parse(match[2] ?? "") };
    });
}

const everything = [
  started(120, 80),
  progress,
  ...block(0, { reasoning: ["Look ", "first."] }),
  ...block(1, { text: ["Read", "ing\n\u2028é\u0000."] }),
  ...block(2, { call: ['{"path":', '"a.ts"}'] }),
  ...block(3, { call: [] }),
  finished(FinishReason.TOOL_CALLS, { usage: { ...usage, reasoningTokens: 7 } }),
];

/** The vendor SDK's fold of a stream. */
async function readBySdk(sse: string) {
  const answer = () => Promise.resolve(new Response(sse, { headers: { "content-type": "text/event-stream" } }));
  const client = new Anthropic({ apiKey: "k", baseURL: "http://gateway.invalid", maxRetries: 0, fetch: answer });
  return client.messages.stream({ model: "svc-qwen", max_tokens: 16, messages: [] }).finalMessage();
}

describe("the stream", () => {
  test("matches the format byte for byte", () => {
    const events = [
      started(120, 80),
      ...block(0, { reasoning: ["Hm."] }),
      ...block(1, { text: ["Hi"] }),
      ...block(2, { call: ["{}"] }),
      finished(FinishReason.TOOL_CALLS),
    ];
    expect(streamed(events).split("\n\n")).toEqual([
      'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_0123456789abcdefABCDEFgh","type":"message","role":"assistant","model":"svc-qwen","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":40,"cache_creation_input_tokens":0,"cache_read_input_tokens":80,"output_tokens":1}}}',
      'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}',
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}',
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"signed(3)"}}',
      'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}',
      'event: content_block_start\ndata: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}',
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi"}}',
      'event: content_block_stop\ndata: {"type":"content_block_stop","index":1}',
      'event: content_block_start\ndata: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_2","name":"read","input":{}}}',
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{}"}}',
      'event: content_block_stop\ndata: {"type":"content_block_stop","index":2}',
      'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":24,"cache_creation_input_tokens":16,"cache_read_input_tokens":80,"output_tokens":30}}',
      'event: message_stop\ndata: {"type":"message_stop"}',
      "",
    ]);
  });

  test("counts the whole prompt as input while the cached part is unknown", () => {
    expect(frames(streamed([started(120)]))[0]?.data.message).toMatchObject({
      usage: { input_tokens: 120, cache_read_input_tokens: 0 },
    });
  });

  test("starts once, even with a retry", () => {
    expect(streamed([started(), started(), progress])).toBe(streamed([started()]));
  });

  test("an empty answer is three frames", () => {
    const empty = [started(), ...block(0, { text: [] }), ...block(1, { reasoning: [] }), finished()];
    expect(frames(streamed(empty)).map(({ event }) => event)).toEqual([
      "message_start",
      "message_delta",
      "message_stop",
    ]);
  });

  test("withheld thinking is a block without text, ending in its signature", () => {
    const text = streamed(everything, { thinking: { type: "adaptive", display: "omitted" } });
    const first = frames(text).filter(({ data }) => data.index === 0);
    expect(first.map(({ data }) => data.delta ?? data.type)).toEqual([
      "content_block_start",
      { type: "signature_delta", signature: "sealed:Look first." },
      "content_block_stop",
    ]);
    expect(text).not.toContain("thinking_delta");
  });

  test("thinking that is off leaves no gap in the indices", () => {
    const starts = frames(streamed(everything, { thinking: { type: "disabled" } })).filter(
      ({ event }) => event === "content_block_start",
    );
    expect(starts.map(({ data }) => data.index)).toEqual([0, 1, 2]);
    expect(starts[0]?.data.content_block).toMatchObject({ type: "text" });
  });

  test("a ping is a keep-alive at any point, until the end", () => {
    const encode = encoder();
    const ping = 'event: ping\ndata: {"type":"ping"}\n\n';
    expect(encode.keepAlive()).toBe(ping);
    for (const event of everything.slice(0, -1)) {
      encode.next(event);
      expect(encode.keepAlive()).toBe(ping);
    }
    encode.next(finished());
    expect(encode.keepAlive()).toBe("");
  });

  test.each([
    ["before the first event", 0],
    ["between blocks", 1],
    ["inside a block", 4],
  ])("a failure %s is one error frame, the last one", (_, sent) => {
    const encode = encoder();
    for (const event of everything.slice(0, sent)) encode.next(event);
    expect(frames(encode.fail(lost))).toEqual([
      {
        event: "error",
        data: {
          type: "error",
          error: { type: "api_error", message: "The engine was lost." },
          request_id: head.requestId,
        },
      },
    ]);
    expect(everything.map((event) => encode.next(event)).join("") + encode.keepAlive() + encode.fail(lost)).toBe("");
  });

  test("nothing follows the end", () => {
    const encode = encoder();
    for (const event of everything) encode.next(event);
    expect(encode.next(started()) + encode.next(finished()) + encode.fail(lost)).toBe("");
  });
});

describe("every legal order of up to three blocks", () => {
  const scripts = [
    { text: ["a", "b"] },
    { text: [] },
    { reasoning: ["c"] },
    { reasoning: [] },
    { call: ["{}"] },
    { call: [] },
  ];
  const answers = [[], ...scripts.map((one) => [one])].concat(
    scripts.flatMap((one) => scripts.flatMap((two) => [[one, two], ...scripts.map((three) => [one, two, three])])),
  );
  const displays = [{}, { thinking: { type: "disabled" } }, { thinking: { type: "adaptive", display: "omitted" } }];

  test.each(displays)("with %j opens and closes one block at a time, in dense indices", (more) => {
    for (const answer of answers) {
      const events = [started(), ...answer.flatMap((script, index) => block(index, script)), finished()];
      const grammar =
        /^message_start (start ((text|input_json|thinking)_delta )*(signature_delta )?stop )*message_delta message_stop$/;
      const seen = frames(streamed(events, more));
      expect(seen.map(word).join(" ")).toMatch(grammar);
      expect(seen.every(({ event, data }) => event === data.type)).toBe(true);
      const opened = seen.filter(({ event }) => event === "content_block_start").map(({ data }) => data.index);
      const closed = seen.filter(({ event }) => event === "content_block_stop").map(({ data }) => data.index);
      expect(opened).toEqual(opened.map((_, index) => index));
      expect(closed).toEqual(opened);
      for (const [position, { event, data }] of seen.entries()) {
        const next = seen[position + 1];
        if (word({ event, data }) === "signature_delta") expect(next).toMatchObject({ event: "content_block_stop" });
        if (event === "content_block_delta") expect(data.index).toBe(next?.data.index);
      }
    }
  });

  function word({ event, data }: Frame): string {
    const { delta } = data;
    if (event === "content_block_delta") return String(Reflect.get(Object(delta), "type"));
    return event.replace("content_block_", "");
  }
});

describe("the vendor's SDK", () => {
  test.each([[{}], [{ thinking: { type: "adaptive", display: "omitted" } }], [{ thinking: { type: "disabled" } }]])(
    "with %j folds the stream into the folded reply",
    async (more) => {
      const { service_tier: _, ...counted } = JSON.parse(JSON.stringify(replied(more))).usage;
      const message = JSON.parse(JSON.stringify(await readBySdk(streamed(everything, more))));
      expect(message).toMatchObject({ ...replied(more), usage: counted });
    },
  );

  test("accepts pings between all frames", async () => {
    const encode = encoder();
    const sse = everything.map((event) => encode.keepAlive() + encode.next(event)).join("");
    expect(await readBySdk(sse)).toMatchObject({ stop_reason: "tool_use" });
  });

  test("throws on a stream that failed, with the type of the error", async () => {
    const encode = encoder();
    const sse =
      everything
        .slice(0, 8)
        .map((event) => encode.next(event))
        .join("") + encode.fail(lost);
    const error = await readBySdk(sse).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({ type: "api_error" });
  });

  function replied(more: object): object {
    return prepared(messages, { ...minimal, ...more }, context).reply(head, folded(everything));
  }
});
