import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock, toDuration } from "../../../deploy/runtime/time/clock.ts";
import { type DialectRig, rigOf } from "../../support/dialects/dialect-rig.ts";
import type { Asked, Reply } from "../../support/dialects/dialect-server.ts";
import { answerTo, HandingEngines, type HandingOptions } from "../../support/dialects/handing-engines.ts";
import { renderChat, toText } from "../../support/dialects/stand-in-text.ts";
import { answerOf } from "../../support/events/answer-of.ts";
import { FrontRig, type FrontRigOptions } from "../../support/gateway/front-rig.ts";
import { settle, settleUntil } from "../../support/gateway/upstream/settle.ts";
import { metricSum } from "../../support/metric-text.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { until } from "../../support/until.ts";

/** A prompt that is long enough to be read elsewhere, with a beginning of its own. */
const long = (name: string) => `${name} ${"word ".repeat(400)}`;
const LEAST_TOKENS = 300;
const WINDOW = 1_000_000;
const rendered = (text: string) => renderChat({ messages: [{ role: "user", content: text }] });

type Change = (asked: Asked, own: (asked: Asked) => Reply) => Reply;

type Given = Omit<HandingOptions, "clock"> & {
  readonly front?: FrontRigOptions;
  /** The number of nodes that answer. Default: one. */
  readonly answering?: number;
  /** Changes what the engine of the prefill node does in its own part, or that of the first node that answers. */
  readonly reader?: Change;
  readonly answerer?: Change;
  readonly readerSlots?: number;
};

/** A router in front of nodes that answer and one that reads for them, each beside an engine. */
async function rigged({ front = {}, answering: count = 1, reader, answerer, readerSlots = 4, ...options }: Given = {}) {
  const engines = new HandingEngines({ clock: systemClock, ...options });
  let isProbed = false;
  const model = (name: string, change?: Change) => {
    const own = engines.modelOf(name);
    return (asked: Asked) => (change && isProbed ? change(asked, own) : own(asked));
  };
  const answering: DialectRig[] = [];
  for (let at = 0; at < count; at += 1)
    answering.push(
      await rigOf("vllm", { model: model(`answering-${at}`, at === 0 ? answerer : undefined), contextWindow: WINDOW }),
    );
  const reading = await rigOf(
    "vllm",
    { model: model("reading", reader), contextWindow: WINDOW },
    { slots: readerSlots },
  );
  isProbed = true;
  const prefill = { type: "static", endpoints: [{ address: reading.node.address }] };
  const rig = new FrontRig(
    answering.map(({ node }) => node.address),
    { ...front, cluster: { prefill, ...front.cluster }, router: { leastMovedTokens: LEAST_TOKENS, ...front.router } },
  );
  onTestFinished(() => rig.close());
  await rig.ready();
  await until(() => rig.manager.clusters.every((one) => one.healthyEndpoints.length > 0), "all are healthy");
  for (const list of [engines.read, engines.taken]) list.splice(0);
  const outcomes = async () => {
    const text = await rig.registry.metrics();
    const counted = (outcome: string) => metricSum(text, "svc_prefills_total", `outcome="${outcome}"`);
    const all = ["handed_over", "lost", "not_kept", "failed", "late", "cancelled"];
    return Object.fromEntries(all.map((outcome) => [outcome, counted(outcome)]).filter(([, number]) => number));
  };
  const atRest = async () => {
    await rig.atRest();
    await until(
      () => rig.manager.endpoints.every(({ address }) => rig.manager.work.outstanding(address) === 0),
      "no work",
    );
  };
  return { engines, answering, reading, rig, outcomes, atRest };
}

/** Returns whether the newest call of a node's engine is for the prompt that begins with this name. */
function asksFor(node: DialectRig | undefined, name: string): boolean {
  const tokens = node?.engine.bodies.at(-1)?.token_ids;
  return Array.isArray(tokens) && toText(tokens).includes(`user\n${name} `);
}

const textOf = ({ events }: ReturnType<FrontRig["send"]>) =>
  answerOf(events)
    .blocks.map(({ text }) => text)
    .join("");

describe("a long prompt", () => {
  test("a long prompt is read on the prefill node and answered by another, which reads nothing", async () => {
    const { rig, engines, reading, outcomes, atRest } = await rigged();
    // Those of the probes.
    const before = engines.pinned;
    const sent = rig.send(generateRequest({}, long("a")));
    expect(await sent.outcome).toBe("ok");
    expect(textOf(sent)).toBe(answerTo(rendered(long("a"))));
    expect(engines.read.map(({ engine }) => engine)).toEqual(["reading"]);
    expect(engines.taken.map(({ engine }) => engine)).toEqual(["answering-0"]);
    expect(engines.pinned).toBe(before);
    expect(sent.calls).toMatchObject({ attempts: 1, endpoint: rig.cluster.endpoints[0]?.address });
    expect(sent.calls.prefilledAt).toBe(reading.node.address);
    expect(await outcomes()).toEqual({ handed_over: 1 });
    const starts = sent.events.filter(({ kind }) => kind?.$case === "started");
    expect(starts).toHaveLength(1);
    expect(answerOf(sent.events).started?.handOver).toBeUndefined();
    await atRest();
  });

  test("a long prompt is read where it is answered if little of it is unread there, or more on the prefill node", async () => {
    const { rig, engines, atRest } = await rigged();
    const ask = async (text: string) => {
      const sent = rig.send(generateRequest({}, text));
      expect(await sent.outcome).toBe("ok");
      return sent.calls.prefilledAt;
    };
    expect(await ask("short")).toBeUndefined();
    expect(await ask(long("a"))).toBeDefined();
    // The answering node has it now.
    expect(await ask(long("a"))).toBeUndefined();
    expect(engines.taken).toHaveLength(1);
    await atRest();
  });

  const fallen: Readonly<Record<string, readonly [Given, Record<string, number>]>> = {
    "the prefill node dies before it has read": [
      { reader: () => ({ kind: "stream", data: [], end: "reset" }) },
      { failed: 1 },
    ],
    "the prefill node refuses": [
      { reader: () => ({ kind: "status", status: 400, body: { error: { message: "no" } } }) },
      { failed: 1 },
    ],
    "the prefill node's engine keeps nothing": [
      {
        reader: (asked, own) => {
          const reply = own(asked);
          return reply.kind === "status"
            ? { ...reply, body: { ...(reply.body as object), kv_transfer_params: null } }
            : reply;
        },
      },
      { not_kept: 1 },
    ],
    "the other engine cannot take it": [{ policy: "fail" }, { handed_over: 1, lost: 1 }],
  };

  test.each(Object.entries(fallen))(
    "a long prompt is read where it is answered if %s",
    async (_what, [given, expected]) => {
      const { rig, engines, outcomes, atRest } = await rigged(given);
      engines.isConnected = false;
      const sent = rig.send(generateRequest({}, long("a")));
      expect(await sent.outcome).toBe("ok");
      expect(textOf(sent)).toBe(answerTo(rendered(long("a"))));
      expect(sent.calls).toMatchObject({ attempts: 1, failedAttempts: [], prefilledAt: undefined });
      expect(engines.read.at(-1)?.engine).toBe("answering-0");
      expect(await outcomes()).toEqual(expected);
      await atRest();
    },
  );

  test("a long prompt is read where it is answered if the prefill node is late, gone, full or of another group", async () => {
    const silent: Change = () => ({ kind: "stream", data: [], end: "never" });
    const { rig, engines, reading, outcomes, atRest } = await rigged({ reader: silent, readerSlots: 1 });
    const first = rig.send(generateRequest({}, long("a")));
    await until(
      () => reading.engine.bodies.at(-1)?.stream === false && reading.backend.load().busySlots === 1,
      "it reads",
    );
    // The only slot is taken: the next one is read elsewhere at once, as long as it takes.
    const second = rig.send(generateRequest({}, long("b")));
    expect(await second.outcome).toBe("ok");
    expect(second.calls.prefilledAt).toBeUndefined();
    expect(engines.read.map(({ engine }) => engine)).toEqual(["answering-0"]);
    expect(await settle(rig, first.outcome)).toBe("ok");
    expect(rig.clock.nowMs()).toBeLessThan(30_000);
    expect(await outcomes()).toEqual({ late: 1 });
    rig.manager.setDrained(new Set([reading.node.address]));
    const third = rig.send(generateRequest({}, long("c")));
    expect(await third.outcome).toBe("ok");
    expect(await outcomes()).toEqual({ late: 1 });
    await atRest();
  });

  test("a long prompt is not read a second time there for a retry, which goes to another node", async () => {
    let calls = 0;
    const { rig, engines, outcomes, answering, atRest } = await rigged({
      answering: 2,
      answerer: (asked, own) => {
        calls += 1;
        return calls === 1 ? { kind: "stream", data: [], end: "reset" } : own(asked);
      },
    });
    const sent = rig.send(generateRequest({}, long("a")));
    expect(await settle(rig, sent.outcome)).toBe("ok");
    expect(textOf(sent)).toBe(answerTo(rendered(long("a"))));
    if (calls > 0) {
      expect(sent.calls.attempts).toBe(2);
      expect(engines.read.map(({ engine }) => engine)).toEqual(["reading", "answering-1"]);
      expect(sent.calls.endpoint).toBe(answering[1]?.node.address);
    }
    expect(await outcomes()).toEqual({ handed_over: 1 });
    await atRest();
  });

  test("a long prompt stops on both nodes when its caller leaves, while it is read and while it is answered", async () => {
    const { rig, reading, outcomes, atRest, answering } = await rigged({
      reader: (asked, own) =>
        asked.prompt.includes("stuck") ? { kind: "stream", data: [], end: "never" } : own(asked),
      answerer: () => ({ kind: "stream", data: [], end: "never" }),
    });
    const first = rig.send(generateRequest({}, long("stuck")));
    await until(() => asksFor(reading, "stuck"), "it is read");
    first.leave();
    expect(await first.outcome).not.toBe("ok");
    await reading.engine.abortedAtLeast(1);
    const second = rig.send(generateRequest({}, long("last")));
    await until(() => asksFor(answering[0], "last"), "it is answered");
    second.leave();
    expect(await second.outcome).not.toBe("ok");
    await answering[0]?.engine.abortedAtLeast(1);
    await atRest();
    expect(await outcomes()).toEqual({ handed_over: 1, cancelled: 1 });
  });

  test("a long prompt passes others that wait for the prefill of the answering node, which it does not count for", async () => {
    const { rig, atRest, answering } = await rigged({
      // Without the pool, the throttle would hold a second long prompt.
      front: { router: { leastMovedTokens: 20_000 } },
      answerer: (asked, own) =>
        asked.prompt.includes("slow") ? { kind: "stream", data: [], end: "never" } : own(asked),
    });
    const text = (name: string, words: number) => `${name} ${"word ".repeat(words)}`;
    // Some 15,000 tokens, three seconds at the assumed speed: not enough to be moved.
    const slow = rig.send(generateRequest({}, text("slow", 12_000)));
    await until(() => asksFor(answering[0], "slow"), "it is read here");
    const held = rig.send(generateRequest({}, text("held", 12_000)), { keepsAlive: true });
    const [traffic] = rig.router.traffic;
    await until(() => traffic?.admission.pending === 1, "the next waits for its prefill");
    const moved = rig.send(generateRequest({}, text("moved", 20_000)));
    expect(await moved.outcome).toBe("ok");
    expect(moved.calls.prefilledAt).toBeDefined();
    expect(rig.clock.nowMs()).toBe(0);
    for (const one of [slow, held]) one.leave();
    await settleUntil(rig, () => traffic?.admission.pending === 0);
    await atRest();
  });
});

test("a caller's own hand-over fields go nowhere", async () => {
  const { rig, engines } = await rigged();
  const request = generateRequest({ handOver: Buffer.from("x"), handOverLeft: toDuration(1_000) }, long("a"));
  const sent = rig.send(request);
  expect(await sent.outcome).toBe("ok");
  expect(engines.taken).toHaveLength(1);
});
