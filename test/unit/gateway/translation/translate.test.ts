import { expect, test } from "vitest";
import { DEFAULT_CATALOG } from "../../../../gateway/catalog.ts";
import { Sealing } from "../../../../gateway/sealing/sealing.ts";
import { type Caller, translate, withinOutputLimit } from "../../../../gateway/translation/translate.ts";
import type { PromptBound } from "../../../../gateway/upstream/request/prompt-bound.ts";
import { CountTokensRequest, GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { FORMAT_SETTINGS } from "../../../support/events/encoding-context.ts";
import { generateRequest } from "../../../support/requests/generate-request.ts";

const REASONING = { mode: 2, effort: 0 } as const;

test.each([
  ["asks for more", { maxOutputTokens: 500 }, { maxOutputTokens: 100 }],
  ["does not say", {}, { maxOutputTokens: 100 }],
  ["asks for as much", { maxOutputTokens: 100 }, { maxOutputTokens: 100 }],
  ["asks for less", { maxOutputTokens: 7 }, { maxOutputTokens: 7 }],
  [
    "thinks longer than it may answer",
    { maxOutputTokens: 500, reasoning: { ...REASONING, budgetTokens: 400 } },
    { maxOutputTokens: 100, reasoning: { ...REASONING, budgetTokens: 99 } },
  ],
  [
    "thinks for as long as it likes",
    { maxOutputTokens: 500, reasoning: REASONING },
    { maxOutputTokens: 100, reasoning: REASONING },
  ],
])("a request that %s gets the limit of its key", (_what, asked, given) => {
  const request = { ...generateRequest(), maxOutputTokens: undefined, ...asked };
  expect(withinOutputLimit(request, 100)).toMatchObject(given);
});

test("a key without the limit changes nothing", () => {
  const request = generateRequest();
  expect(withinOutputLimit(request, undefined)).toBe(request);
});

const CALLER: Caller = {
  ...{
    requestId: "req_1",
    tenant: "t",
    cacheSalt: "salt",
    maxOutputTokens: undefined,
    usableModels: [],
    loadTests: false,
    priority: 0,
  },
  routingKey: Buffer.alloc(32),
};
const BODY = { model: "svc-qwen", messages: [{ role: "user", content: "hi" }], prompt_cache_key: "mine" };

function translated(
  caller: Partial<Caller> = {},
  body: object = BODY,
  bounds: readonly PromptBound[] = [],
  operation: "chat" | "count_tokens" = "chat",
) {
  const by = { ...CALLER, ...caller };
  const order = { operation, caller: by, bodyBytes: 90 } as const;
  // Another gateway each time: it shares keys, but not the sealing keys.
  return translate(body, order, {
    sealing: new Sealing(),
    acceptsImages: () => false,
    promptBounds: () => bounds,
    settings: FORMAT_SETTINGS,
    catalog: DEFAULT_CATALOG,
  });
}

test("a count has the salt of the key's answers, so that both share what a node knows of earlier prompts", () => {
  const count = CountTokensRequest.decode(
    translated({}, { model: "svc-qwen", messages: BODY.messages }, [], "count_tokens").bytes,
  );
  expect(count).toMatchObject({ tenant: "t", cache: { affinityKey: "", isolationSalt: "salt" } });
});

test("the engine receives the tenant, and the caller's cache key only as a digest", () => {
  const { bytes, facts, inputTokens } = translated({ maxOutputTokens: 7 });
  const sent = GenerateRequest.decode(bytes);
  expect(sent).toMatchObject({ requestId: "req_1", tenant: "t", model: "svc-qwen", maxOutputTokens: 7 });
  expect(sent.cache).toMatchObject({ affinityKey: facts?.cacheKey, isolationSalt: "salt" });
  expect(facts?.cacheKey).toMatch(/^[\w-]{43}$/);
  expect(inputTokens).toBe(30);
  expect(translated({}, { ...BODY, prompt_cache_key: null }).facts?.cacheKey).toBe("");
});

test("gateways agree on where a conversation belongs, and digests differ for every owner and model", () => {
  const of = ({ facts }: ReturnType<typeof translated>) => [facts?.cacheKey, facts?.shape.boundaries.at(-1)?.hash];
  const [cacheKey, hash] = of(translated());
  expect(of(translated())).toEqual([cacheKey, hash]);
  const [strangersKey, strangersHash] = of(translated({ routingKey: Buffer.alloc(32, 1) }));
  expect(strangersKey).not.toBe(cacheKey);
  expect(strangersHash).not.toBe(hash);
  expect(of(translated({}, { ...BODY, model: "svc-glm53" }))).toEqual([
    cacheKey,
    expect.not.stringContaining(hash ?? ""),
  ]);
});

test("deltas of folded answers may be joined, those of a stream never", () => {
  const delayOf = (stream: boolean) =>
    GenerateRequest.decode(translated({}, { ...BODY, stream }).bytes).stream?.maxBatchDelay;
  expect(delayOf(false)).toEqual({ seconds: 0, nanos: 200_000_000 });
  expect(delayOf(true)).toBeUndefined();
});

test("a prompt that no engine can take is neither encoded nor digested, and the facts have the reason", () => {
  const long = { ...BODY, messages: [{ role: "user", content: "x".repeat(1_000) }] };
  const bound = { contextWindow: 100, longestTokenBytes: 10 };
  const { model, bytes, facts } = translated({}, long, [bound]);
  expect({ model, bytes: bytes.length, shape: facts?.shape.boundaries }).toEqual({
    model: "svc-qwen",
    bytes: 0,
    shape: [],
  });
  expect(facts?.beyond).toEqual({ tokens: 100, window: 100 });
  const fits = translated({}, long, [bound, { ...bound, contextWindow: 101 }]);
  expect(fits.facts?.beyond).toBeUndefined();
  expect(fits.bytes).toEqual(translated({}, long).bytes);
});
