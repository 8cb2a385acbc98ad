import { expect, test } from "vitest";
import {
  type Continuation,
  type Event,
  type GenerateRequest,
  type GenerateResponse,
  ReasoningMode,
} from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { generateRequest, toolOf } from "../../../../support/requests/generate-request.ts";
import { deltas, play, simulator } from "./played-simulator.ts";

/** The events and tokens that one call produces. */
async function produced(node: ReturnType<typeof simulator>, request: GenerateRequest) {
  const steps: GenerateResponse[] = [];
  const read = async () => {
    for await (const step of node.backend.generate(request, new AbortController().signal)) steps.push(step);
  };
  const over = read().catch((error: unknown) => error);
  await node.clock.advance(60_000);
  const events = steps.flatMap((step) => step.events);
  return { steps, events, tokens: steps.flatMap(({ tokens }) => tokens), failure: await over };
}

const FORMS: readonly [string, Partial<GenerateRequest>][] = [
  ["text", {}],
  ["reasoning and text", { reasoning: { mode: ReasoningMode.ENABLED, effort: 0, budgetTokens: 5 } }],
  ["a truncated answer", { maxOutputTokens: 4 }],
  [
    "a call",
    {
      tools: [toolOf("find", { type: "object", required: ["q"], properties: { q: { type: "string" } } })],
      toolChoice: { mode: ToolChoiceMode.REQUIRED, name: "", disableParallelCalls: false, allowedNames: [] },
    },
  ],
];

test.each(FORMS)("%s continued by another node at any token is the same answer", async (_form, fields) => {
  const request = generateRequest(fields, "q".repeat(400));
  const whole = await produced(simulator(), request);
  const said = ({ events }: { readonly events: readonly Event[] }) =>
    events.filter(
      ({ kind }) => kind?.$case === "blockStarted" || kind?.$case === "blockDelta" || kind?.$case === "blockEnded",
    );
  expect(whole.tokens.length).toBe(lastUsage(whole.events)?.outputTokens);
  for (let cut = 0; cut <= whole.tokens.length; cut += 1) {
    const callIds = cut === 0 ? [] : callsOf(whole.events);
    const continuation = { modelRevision: "simulator-7", tokens: whole.tokens.slice(0, cut), callIds };
    const rest = await produced(simulator({ nodeId: "n2" }), { ...request, requestId: "r2", continuation });
    expect(rest.failure).toBeUndefined();
    expect(said(rest)).toEqual(said(whole));
    expect(rest.tokens).toEqual(whole.tokens);
    expect(lastUsage(rest.events)).toEqual(lastUsage(whole.events));
    expect(rest.events[0]?.kind?.$case).toBe("started");
  }
});

test("call ids are those of the answer so far", async () => {
  const request = generateRequest(FORMS[3]?.[1]);
  const whole = await produced(simulator(), request);
  const continuation = { modelRevision: "simulator-7", tokens: whole.tokens.slice(0, 1), callIds: ["call_given"] };
  expect(callsOf((await produced(simulator(), { ...request, continuation })).events)).toEqual(["call_given"]);
});

test("the tokens of a continued answer are prefilled with the prompt before the next token", async () => {
  const request = generateRequest({}, "x".repeat(4_000));
  const { tokens } = await produced(simulator({ prefillTokensPerSecond: 100 }), request);
  const continuation = { modelRevision: "simulator-7", tokens: tokens.slice(0, 8), callIds: [] };
  const node = simulator({ prefillTokensPerSecond: 100 });
  const played = play(node, { ...request, continuation });
  await node.clock.advance(60_000);
  const before = play(simulator({ prefillTokensPerSecond: 100 }), request);
  expect(before.heard).toHaveLength(0);
  // Given tokens are sent at once; 8 tokens more than the prompt are prefilled before the ninth.
  expect(
    deltas(played)
      .map(({ atMs }) => atMs)
      .slice(0, 9),
  ).toEqual([...Array(8).fill(0), 10_170]);
});

test.each<[string, Partial<Continuation>, string]>([
  ["another revision", { modelRevision: "simulator-8" }, "REVISION_MISMATCH"],
  ["tokens of another answer", { tokens: [1, 2, 3] }, "INVALID_REQUEST"],
  ["more tokens than the answer has", { tokens: Array(200_000).fill(1) }, "INVALID_REQUEST"],
])("a continuation with %s is refused before it takes a slot", async (_what, fields, reason) => {
  const continuation = { modelRevision: "simulator-7", tokens: [], callIds: [], ...fields };
  const { failure, steps } = await produced(simulator(), generateRequest({ continuation }));
  expect([failure, steps]).toEqual([expect.objectContaining({ reason }), []]);
});

test("an injected failure counts only new tokens of a continuation", async () => {
  const node = simulator({ failure: { afterTokens: 4 } });
  const first = await produced(node, generateRequest());
  expect([first.tokens.length, first.failure]).toEqual([
    4,
    expect.objectContaining({ reason: "ENGINE_STREAM_TRUNCATED" }),
  ]);
  const continuation = { modelRevision: "simulator-7", tokens: first.tokens, callIds: [] };
  const second = await produced(node, generateRequest({ continuation }));
  expect(second.tokens.length).toBe(8);
});

function callsOf(events: readonly Event[]): string[] {
  return events.flatMap(({ kind }) =>
    kind?.$case === "blockStarted" && kind.value.block?.$case === "toolCall" ? [kind.value.block.value.callId] : [],
  );
}

function lastUsage(events: readonly Event[]) {
  const kind = events.at(-1)?.kind;
  return kind?.$case === "finished" ? kind.value.usage : undefined;
}
