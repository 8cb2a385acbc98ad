import { describe, expect, test } from "vitest";
import { decodeCountTokens, decodeGenerate, MANY_BYTES } from "../../../../engine/grpc/decode-request.ts";
import { CountTokensRequest, GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Part, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { generateRequest, textMessage, toolOf } from "../../../support/requests/generate-request.ts";

const ALWAYS = () => true;
const NEVER = () => false;
const ROLES = [Role.SYSTEM, Role.USER, Role.ASSISTANT];

const text = (value: string): Part => ({ kind: { $case: "text", value: { text: value } }, cacheBreakpoint: undefined });
const many = <One>(count: number, make: (at: number) => One) => Array.from({ length: count }, (_, at) => make(at));

const call: Part = {
  kind: { $case: "toolCall", value: { callId: "c1", name: "read", argumentsJson: '{"path":"a"}' } },
  cacheBreakpoint: undefined,
};
const resultOf = (content: readonly Part[]): Part => ({
  kind: { $case: "toolResult", value: { callId: "c1", name: "read", content: [...content], isError: true } },
  cacheBreakpoint: { ttl: { seconds: 300, nanos: 0 } },
});
const message = (role: Role, parts: readonly Part[]): Message => ({ role, parts: [...parts], name: "ann" });

/** Requests whose many pieces stand in different places, and some with few large ones. */
const REQUESTS: readonly (readonly [string, GenerateRequest])[] = [
  ["a short prompt", generateRequest()],
  ["one long text", generateRequest({}, "long ".repeat(MANY_BYTES))],
  [
    "many messages",
    generateRequest({ messages: many(5_000, (at) => textMessage(ROLES[at % 3] ?? Role.USER, `m${at}`)) }),
  ],
  [
    "many parts",
    generateRequest({
      messages: [
        message(
          Role.USER,
          many(9_000, (at) => text(`p${at}`)),
        ),
      ],
    }),
  ],
  [
    "a result of many parts",
    generateRequest({
      messages: [
        message(Role.ASSISTANT, [text("I read."), call]),
        message(Role.TOOL, [resultOf(many(9_000, (at) => text(`r${at}`)))]),
        message(Role.USER, [text("And now?")]),
      ],
    }),
  ],
  [
    "a result of one long text",
    generateRequest({ messages: [message(Role.TOOL, [resultOf([text("x".repeat(99_999))])])] }),
  ],
  [
    "all fields beside many messages",
    generateRequest({
      messages: many(5_000, (at) => textMessage(Role.USER, `m${at}`)),
      tools: many(300, (at) => toolOf(`tool${at}`, { type: "object", properties: { a: { type: "string" } } })),
      tenant: "t1",
      priority: -3,
      resumable: true,
      maxOutputTokens: 0,
      prefixDigests: Buffer.alloc(160, 7),
      continuation: { modelRevision: "r", tokens: many(1_000, (at) => at), callIds: [] },
    }),
  ],
];

function whole<Request>(reading: Generator<void, Request>): { readonly request: Request; readonly yields: number } {
  for (let yields = 0; ; yields += 1) {
    const step = reading.next();
    if (step.done) return { request: step.value, yields };
  }
}

describe.each(REQUESTS)("%s", (_name, request) => {
  test("is read as the generated code reads it, with and without pauses", () => {
    const bytes = GenerateRequest.encode(request).finish();
    expect(whole(decodeGenerate(bytes, ALWAYS))).toEqual({ request: GenerateRequest.decode(bytes), yields: 0 });
    expect(whole(decodeGenerate(bytes, NEVER)).request).toEqual(GenerateRequest.decode(bytes));
  });

  test("is read alike where its tokens are counted", () => {
    const { model, messages, tools, tenant } = request;
    const bytes = CountTokensRequest.encode(CountTokensRequest.create({ model, messages, tools, tenant })).finish();
    expect(whole(decodeCountTokens(bytes, NEVER)).request).toEqual(CountTokensRequest.decode(bytes));
  });
});

test.each([
  ["many messages", 5_000],
  ["many parts", 9_000],
  ["a result of many parts", 9_000],
] as const)("others may have a turn after each piece of %s", (name, pieces) => {
  const request = REQUESTS.find(([one]) => one === name)?.[1] ?? generateRequest();
  const { yields } = whole(decodeGenerate(GenerateRequest.encode(request).finish(), NEVER));
  expect(yields).toBeGreaterThanOrEqual(pieces);
});

test("of several kinds of a large part the last one counts, as in the generated code", () => {
  const result = Part.encode(resultOf([text("x".repeat(2 * MANY_BYTES))])).finish();
  for (const parts of [
    [result, Part.encode(text("last")).finish()],
    [Part.encode(text("first")).finish(), result],
    [result, Part.encode(resultOf([])).finish()],
  ]) {
    const part = Buffer.concat(parts);
    const length = Buffer.from([0x12, (part.length & 127) | 128, ((part.length >> 7) & 127) | 128, part.length >> 14]);
    const inner = Buffer.concat([Buffer.from([0x08, 2]), length, part]);
    const size = Buffer.from([0x1a, (inner.length & 127) | 128, ((inner.length >> 7) & 127) | 128, inner.length >> 14]);
    const bytes = Buffer.concat([size, inner]);
    expect(whole(decodeGenerate(bytes, NEVER)).request).toEqual(GenerateRequest.decode(bytes));
  }
});

test("bytes that are no such message throw, wherever they break off", () => {
  const bytes = GenerateRequest.encode(REQUESTS[4]?.[1] ?? generateRequest()).finish();
  for (const end of [bytes.length - 1, bytes.length >> 1, MANY_BYTES + 1])
    expect(() => whole(decodeGenerate(bytes.subarray(0, end), NEVER))).toThrow();
});
