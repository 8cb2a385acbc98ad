import { describe, expect, onTestFinished, test } from "vitest";
import { type Event, FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ResumableNode, type ResumableNodeOptions, type Step } from "../../support/engine/resumable-node.ts";
import { blockEnd, delta, finished, reasoningStart, textStart, toolCallStart } from "../../support/events/events.ts";
import { gatewayOf } from "../../support/gateway/own-services.ts";
import type { RunningGateway } from "../../support/gateway/start-gateway.ts";
import { ANSWER_PATHS, type AnswerPath, bodyFor, brokenEnd } from "../../support/http/answer-check.ts";
import { readBody } from "../../support/http/read-until.ts";
import { metricSum } from "../../support/metric-text.ts";
import { preferred } from "../../support/preferred.ts";
import { until } from "../../support/until.ts";

/*
 * The table of positions at which an answer can lose its engine: all of them, over real gRPC and HTTP, streamed and
 * not, in all formats. The caller receives byte for byte the answer of an undisturbed engine, or a beginning of it and
 * the end of a broken answer. The same with processes, and with a real model: test/fault/continuation.test.ts.
 */

const ANSWER: readonly Step[] = [
  [reasoningStart(0), delta(0, "Let me")],
  [delta(0, " see.")],
  [blockEnd(0)],
  [textStart(1), delta(1, "It is ")],
  // Half of a character is a token without text.
  [],
  [delta(1, "🎉 done")],
  [blockEnd(1)],
  [toolCallStart(2, "write", "call_lost"), delta(2, '{"line":')],
  [delta(2, '"a\\')],
  [delta(2, "nb\\u00")],
  [delta(2, 'e9"}')],
  [blockEnd(2), finished(FinishReason.TOOL_CALLS, { outputTokens: 12, reasoningTokens: 3 })],
].map((events: readonly Event[], at) => ({ token: 100 + at, events }));

type Row = {
  readonly where: string;
  /** Numbers of steps after which the first engine of an answer is lost, the second one, and so on. */
  readonly behind: readonly number[];
  /** Whether all engines are lost at the same time, and return. Default: only that of the answer. */
  readonly all?: boolean;
};

const GOES_ON: readonly Row[] = [
  { where: "in prefill", behind: [0] },
  { where: "in reasoning", behind: [1] },
  { where: "at the end of reasoning", behind: [3] },
  { where: "in the middle of a character", behind: [5] },
  { where: "between a block and the next", behind: [7] },
  { where: "at the beginning of a tool call", behind: [8] },
  { where: "inside an escape of a tool argument", behind: [9] },
  { where: "inside a character's number in a tool argument", behind: [10] },
  { where: "at the last token", behind: [11] },
  { where: "behind the last event", behind: [12] },
  { where: "twice in one answer", behind: [2, 9] },
  { where: "three times, also where it was lost before", behind: [1, 5, 9] },
  { where: "together with all others", behind: [5], all: true },
];

/** Engines that cannot continue the answer, which is lost after nine steps. */
const BREAKS_OFF: readonly { readonly other: string; readonly is: Partial<ResumableNodeOptions> }[] = [
  { other: "has another revision", is: { revision: "r2" } },
  { other: "has another revision than it describes", is: { described: "r1", revision: "r2" } },
  { other: "lies about its tokens", is: { steps: ANSWER.map(({ token, events }) => ({ token: token + 1, events })) } },
  { other: "gives another answer", is: { steps: ANSWER.map((step, at) => (at === 5 ? said(step, "oh") : step)) } },
];

function said({ token }: Step, text: string): Step {
  return { token, events: [delta(1, text)] };
}

const MODES = ANSWER_PATHS.flatMap((path) => [
  { path, stream: true },
  { path, stream: false },
]);

async function node(options: Partial<ResumableNodeOptions>): Promise<ResumableNode> {
  const made = await ResumableNode.start({ steps: ANSWER, ...options });
  onTestFinished(() => made.node.stop());
  return made;
}

/**
 * A gateway in front of these nodes, which prefers the first and ejects none. Answers wait up to `holdMs` for an engine
 * that can continue them.
 */
function inFrontOf(nodes: readonly ResumableNode[], holdMs = 5_000): Promise<RunningGateway> {
  const cluster = {
    model: "svc-qwen",
    ...preferred(nodes.map(({ address }) => address)),
    outlierDetection: { consecutiveGatewayFailure: 0 },
    circuitBreakers: { noEndpointHoldMs: holdMs },
  };
  return gatewayOf([], { clusters: [cluster], timeouts: { pendingTimeoutMs: holdMs } });
}

const healthy = (gateway: RunningGateway, count: number) =>
  until(() => (gateway.clusters.cluster("svc-qwen")?.healthyEndpoints.length ?? 0) >= count, "nodes are healthy");

const TOOL = { name: "write", description: "Write a line", schema: { type: "object", properties: {} } };

/**
 * Requests the answer; `text` makes the request unique, because one that is lost twice is suspected of killing engines.
 */
async function ask(gateway: RunningGateway, path: AnswerPath, stream: boolean, text: string, headers = {}) {
  const { name, description, schema } = TOOL;
  const fields = {
    "/v1/chat/completions": {
      tools: [{ type: "function", function: { name, description, parameters: schema } }],
      ...(stream && { stream_options: { include_usage: true } }),
    },
    "/v1/messages": {
      tools: [{ name, description, input_schema: schema }],
      thinking: { type: "enabled", budget_tokens: 1_024 },
    },
    "/v1/responses": {
      tools: [{ type: "function", name, description, parameters: schema, strict: false }],
      reasoning: { summary: "auto" },
    },
  }[path];
  const response = await gateway.post(path, bodyFor(path, text, { ...fields, stream }), headers);
  const body = await readBody(response).toEndOrCut();
  return { status: response.status, cut: body.cut, text: withoutNew(body.text) };
}

/** Returns an answer without the parts that differ each time: ids, times, and sealed texts. */
function withoutNew(text: string): string {
  return text
    .replace(/"((?:\w*_)?id|signature|encrypted_content)":"(?!call_lost)[^"]*"/g, '"$1":""')
    .replace(/"(created|created_at|completed_at)":\d+/g, '"$1":0');
}

describe("an answer continues unchanged when its engine is lost", () => {
  test.each(GOES_ON)(
    "an answer continues unchanged when its engine is lost: $where",
    async ({ behind, all = false }) => {
      let calls = 0;
      const stopAfter = () => behind[calls++];
      const nodes = await Promise.all([1, 2, 3].map(() => node({ stopAfter })));
      const gateway = await inFrontOf(nodes);
      const calm = await inFrontOf([await node({})]);
      await healthy(calm, 1);
      for (const { path, stream } of MODES) {
        await healthy(gateway, 2);
        calls = 0;
        const before = nodes.map(({ standing }) => standing);
        const asked = ask(gateway, path, stream, `${path} ${stream}`);
        for (const _ of behind) {
          await until(() => nodes.some(({ standing }, at) => standing > (before[at] ?? 0)), "an engine is to be lost");
          for (const [at, { standing, node }] of nodes.entries()) {
            if (all || standing > (before[at] ?? 0)) node.crash();
            before[at] = standing;
          }
        }
        expect(await asked, `${path}, ${stream ? "streamed" : "folded"}`).toEqual(
          await ask(calm, path, stream, `${path} ${stream}`),
        );
      }
      const lost = behind.some((steps) => steps > 0 && steps < ANSWER.length);
      const continued = nodes.flatMap(({ calls }) => calls).filter(({ request }) => request.continuation).length;
      expect(continued).toBe(lost ? MODES.length * behind.length : 0);
    },
  );
});

describe("an answer whose engine is lost while the other one", () => {
  test.each(BREAKS_OFF)("H16 $other, fails, or restarts if its caller has received no part of it", async ({ is }) => {
    for (const { path, stream } of MODES) {
      const [first, other] = await Promise.all([node({ stopAfter: () => 9 }), node(is)]);
      const gateway = await inFrontOf([first, other], 250);
      const calm = await inFrontOf([await node(stream ? {} : is)]);
      await healthy(gateway, 2);
      await healthy(calm, 1);
      const asked = ask(gateway, path, stream, "once");
      await until(() => first.standing > 0, "the engine is to be lost");
      first.node.stop();
      const [got, whole] = [await asked, await ask(calm, path, stream, "once")];
      if (!stream) expect(got, path).toEqual(whole);
      else expectBroken(path, got, whole.text);
      expect(other.calls.filter(({ request }) => !request.continuation)).toHaveLength(stream ? 0 : 1);
    }
  });
});

describe("an answer that orders the loss of its engine", () => {
  const ordering = async (gateway: RunningGateway) => {
    const key = await gateway.createKey("--name", "prober", "--models", "all", "--load-tests");
    return { authorization: `Bearer ${key}`, "x-svc-lose-engine": "1" };
  };

  test("an answer that orders the loss of its engine is continued by another one, and the engine stays in service", async () => {
    const nodes = await Promise.all([node({}), node({})]);
    const gateway = await inFrontOf(nodes);
    const calm = await inFrontOf([await node({})]);
    const headers = await ordering(gateway);
    for (const { path, stream } of MODES) {
      await healthy(gateway, 2);
      const got = await ask(gateway, path, stream, "once", headers);
      expect(got, path).toEqual(await ask(calm, path, stream, "once"));
    }
    const tokens = nodes[1]?.calls.map(({ request }) => request.continuation?.tokens.length ?? 0);
    expect(tokens).toEqual(MODES.map(() => 1));
    expect(gateway.clusters.cluster("svc-qwen")?.healthyEndpoints).toHaveLength(2);
    const counted = await gateway.stats.registry.metrics();
    expect(metricSum(counted, "svc_continuations_total", 'outcome="went_on"')).toBe(MODES.length);
    expect(metricSum(counted, "svc_cluster_upstream_rq_rx_reset_total")).toBe(0);
  });

  test("an answer that orders the loss of its engine breaks off where none can continue it, and is refused to an ordinary key", async () => {
    const only = await node({});
    const gateway = await inFrontOf([only, await node({ revision: "r2" })], 250);
    await healthy(gateway, 2);
    const path = "/v1/responses";
    const broken = await ask(gateway, path, true, "once", await ordering(gateway));
    expect(broken.text).toContain('"response.failed"');
    const refused = await ask(gateway, path, true, "once", { "x-svc-lose-engine": "1" });
    expect([refused.status, refused.text]).toEqual([403, expect.stringContaining("--load-tests")]);
    expect(only.calls).toHaveLength(1);
  });
});

/** A broken stream is a beginning of the complete one, up to the last event of the first engine, and its end. */
function expectBroken(path: AnswerPath, { text, cut }: { text: string; cut: boolean }, whole: string): void {
  const frames = (all: string) => all.split("\n\n").filter((frame) => frame !== "");
  expect(cut, path).toBe(brokenEnd(path) === "cut");
  const got = frames(text);
  const ofWhole = got.findIndex((frame, at) => frame !== frames(whole)[at]);
  const end = ofWhole === -1 ? [] : got.slice(ofWhole);
  const same = got.slice(0, got.length - end.length).join("");
  expect(same, path).toContain('\\"a\\\\');
  expect(same, path).not.toContain("u00");
  if (cut) expect(end, path).toEqual([]);
  else expect(end.some((frame) => frame.includes('"response.failed"'))).toBe(true);
}
