import { describe, expect, test } from "vitest";
import { toDuration } from "../../../deploy/runtime/time/clock.ts";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { Capability } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { ask, type DialectRig, rigOf, says } from "../../support/dialects/dialect-rig.ts";
import { answerTo, HandingEngines, type HandingOptions, LEASE_MS } from "../../support/dialects/handing-engines.ts";
import { renderChat } from "../../support/dialects/stand-in-text.ts";
import { generateRequest, textMessage } from "../../support/requests/generate-request.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const LEFT = toDuration(20_000);
const TEXT = "Read all of this. ".repeat(20);
const prompt = (text = TEXT) => ({ messages: [textMessage(Role.USER, text)] });
const rendered = (text = TEXT) => renderChat({ messages: [{ role: "user", content: text }] });

/** Two nodes, each beside an engine that reads prompts from the other. */
async function pair(options: Omit<HandingOptions, "clock"> = {}) {
  const clock = new VirtualClock();
  const engines = new HandingEngines({ clock, ...options });
  const [from, to] = [
    await rigOf("vllm", { model: engines.modelOf("from") }, {}, { clock }),
    await rigOf("vllm", { model: engines.modelOf("to") }, {}, { clock }),
  ];
  const notes: string[] = [];
  to.backend.onNote = (note) => notes.push(note);
  const make = async (fields: Partial<GenerateRequest> = prompt()) => {
    const { started, finished, blocks } = await ask(from, { ...fields, maxOutputTokens: 0, makeHandOver: true });
    expect(blocks).toEqual([]);
    expect(finished?.usage?.outputTokens).toBe(0);
    return { bytes: started?.handOver ?? Buffer.alloc(0), ttl: started?.handOverTtl };
  };
  const take = (handOver: Buffer, fields: Partial<GenerateRequest> = {}) =>
    ask(to, { ...prompt(), handOver, handOverLeft: LEFT, ...fields });
  // Those of the probes.
  for (const list of [engines.read, engines.taken]) list.splice(0);
  return { clock, engines, from, to, make, take, notes };
}

const textOf = ({ blocks }: Awaited<ReturnType<typeof ask>>) => blocks.map(({ text }) => text).join("");
const lastBody = ({ engine }: DialectRig) => engine.bodies.at(-1) ?? {};

/** Returns a hand-over with other contents. */
function changed(bytes: Buffer, change: (fields: Record<string, unknown>) => void): Buffer {
  const fields = JSON.parse(bytes.toString());
  change(fields);
  return Buffer.from(JSON.stringify(fields));
}

describe("a prompt that another node has read", () => {
  test("a prompt that another node has read is taken once, and answered as if it had been read here", async () => {
    const { engines, from, make, take, to, clock } = await pair();
    const [one, other] = await Promise.all([from, to].map(async ({ client }) => (await client.describe()).models[0]));
    expect(one?.capabilities).toContain(Capability.HAND_OVER);
    expect(one?.handOverGroup).toMatch(/^[0-9a-f]{16}$/);
    expect(other?.handOverGroup).toBe(one?.handOverGroup);
    const pinned = engines.pinned;
    const { bytes, ttl } = await make();
    expect(ttl).toEqual(toDuration((LEASE_MS * 2) / 3));
    expect(lastBody(from)).toMatchObject({ stream: false, kv_transfer_params: { do_remote_decode: true } });
    expect(engines.pinned).toBe(pinned + 1);
    const answer = await take(bytes);
    expect(textOf(answer)).toBe(answerTo(rendered()));
    expect(engines.read).toEqual([{ engine: "from", prompt: rendered() }]);
    expect(engines.taken).toEqual([{ engine: "to", prompt: rendered() }]);
    expect(engines.pinned).toBe(pinned);
    // The engine's part as it came; log probabilities are for the node.
    expect(lastBody(to).kv_transfer_params).toEqual(JSON.parse(bytes.toString()).engine);
    expect(answer.finished?.usage?.cachedInputTokens).toBe(16);
    expect(answer.finished?.timings?.queue).toBeUndefined();
    expect(textOf(await take(bytes))).toBe(answerTo(rendered()));
    expect(lastBody(to).kv_transfer_params).toBeUndefined();
    await clock.advance(LEASE_MS);
    expect(engines.pinned).toBe(0);
  });

  test("a prompt that another node has read gives the log probabilities that were asked for, and no others", async () => {
    const { make, take, to } = await pair();
    const logprobs = async (fields: Partial<GenerateRequest>) => {
      const reading = to.client.generate({
        ...generateRequest(),
        ...prompt(),
        ...{ handOver: (await make()).bytes, handOverLeft: LEFT },
        ...fields,
      });
      expect((await reading.ended).code).toBe(0);
      return reading.events.flatMap(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.logprobs : []));
    };
    expect(await logprobs({})).toEqual([]);
    const sampling = { stop: [], logitBias: {}, topLogprobs: 2 };
    for (const { alternatives } of await logprobs({ sampling })) expect(alternatives).toHaveLength(2);
    await take((await make()).bytes);
  });

  const foreign: Readonly<Record<string, (fields: Record<string, unknown>) => void>> = {
    "of another version": (fields) => Object.assign(fields, { version: 2 }),
    "of another group": (fields) => Object.assign(fields, { group: "0123456789abcdef" }),
    "of another prompt": (fields) => Object.assign(fields, { prompt: "x" }),
    "without blocks": ({ engine }) => Reflect.deleteProperty(engine as object, "remote_block_ids"),
    "with blocks that are no numbers": ({ engine }) => Object.assign(engine as object, { remote_block_ids: [["1"]] }),
    "without an engine's name": ({ engine }) => Object.assign(engine as object, { remote_engine_id: "" }),
    "without a host": ({ engine }) => Object.assign(engine as object, { remote_host: null }),
    "without a port": ({ engine }) => Object.assign(engine as object, { remote_port: "5600" }),
    "that is not to be read": ({ engine }) => Object.assign(engine as object, { do_remote_prefill: false }),
    "of another way": ({ engine }) => Object.assign(engine as object, { transfer_mode: "push" }),
  };

  test.each(Object.entries(foreign))("%s is not given to the engine", async (_what, change) => {
    const { engines, make, take, to } = await pair();
    const answer = await take(changed((await make()).bytes, change));
    expect(textOf(answer)).toBe(answerTo(rendered()));
    expect(lastBody(to).kv_transfer_params).toBeUndefined();
    expect(engines.taken).toEqual([]);
  });

  test("a prompt that another node has read is not given to the engine for another tenant, another text, too late, or as rubbish", async () => {
    const { engines, make, take } = await pair();
    const other = "Something else.";
    expect(textOf(await take((await make()).bytes, prompt(other)))).toBe(answerTo(rendered(other)));
    for (const fields of [{ tenant: "other" }, { handOverLeft: toDuration(0) }, { handOverLeft: undefined }])
      expect(textOf(await take((await make()).bytes, fields))).toBe(answerTo(rendered()));
    for (const bytes of [Buffer.from("{"), Buffer.from("[]"), Buffer.alloc(2 ** 20 + 1, 0x20)])
      expect(textOf(await take(bytes))).toBe(answerTo(rendered()));
    expect(engines.taken).toEqual([]);
  });

  test("a prompt that another node has read counts the time that rendering took", async () => {
    const { clock, engines, make, take, to } = await pair();
    const { bytes } = await make();
    const render = to.backend.generate.bind(to.backend);
    to.backend.generate = (request, signal) => {
      const running = render(request, signal);
      const next = running.next.bind(running);
      running.next = () => {
        const step = next();
        clock.holdUp(20_000);
        running.next = next;
        return step;
      };
      return running;
    };
    expect(textOf(await take(bytes))).toBe(answerTo(rendered()));
    expect(engines.taken).toEqual([]);
  });

  test("a hand-over of another prompt brings no word of it into the answer, nor into later ones", async () => {
    const { clock, engines, make, take, to, notes } = await pair();
    const { bytes } = await make();
    await clock.advance(LEASE_MS + 1);
    const lost = await take(bytes);
    expect(lost).toMatchObject({ reason: "HAND_OVER_LOST", blocks: [], code: 14 });
    expect(engines.taken).toHaveLength(1);
    const { cache_salt: before } = lastBody(to);
    expect(notes).toHaveLength(1);
    // The engine has cached it under the prompt's own tokens.
    expect(textOf(await take(Buffer.alloc(0)))).toBe(answerTo(rendered()));
    expect(lastBody(to).cache_salt).not.toBe(before);
    const own = lastBody(to).cache_salt;
    expect(textOf(await take((await make()).bytes))).toBe(answerTo(rendered()));
    expect(lastBody(to)).toMatchObject({ cache_salt: own });
    expect(engines.taken).toHaveLength(1);
    expect(notes).toHaveLength(1);
  });

  test("a prompt that another node has read is read by an engine that cannot take it, or lost where the engine must not", async () => {
    const reads = await pair();
    reads.engines.isConnected = false;
    expect(textOf(await reads.take((await reads.make()).bytes))).toBe(answerTo(rendered()));
    expect(reads.engines.read.map(({ engine }) => engine)).toEqual(["from", "to"]);
    const fails = await pair({ policy: "fail" });
    fails.engines.isConnected = false;
    expect(await fails.take((await fails.make()).bytes)).toMatchObject({ reason: "HAND_OVER_LOST", blocks: [] });
    fails.engines.isConnected = true;
    // It says nothing of the next one.
    expect(textOf(await fails.take((await fails.make()).bytes))).toBe(answerTo(rendered()));
    expect(fails.engines.taken).toHaveLength(1);
    expect(fails.notes).toEqual([]);
  });
});

test("a node whose engine keeps nothing for others makes no hand-over, and takes none", async () => {
  const rig = await rigOf("vllm");
  const [model] = (await rig.client.describe()).models;
  expect(model?.capabilities).not.toContain(Capability.HAND_OVER);
  expect(model?.handOverGroup).toBe("");
  const { started } = await ask(rig, { maxOutputTokens: 0, makeHandOver: true });
  expect(started?.handOver).toBeUndefined();
  rig.engine.next(says({ text: ["Hello."] }));
  expect(textOf(await ask(rig, { handOver: Buffer.from("{}"), handOverLeft: LEFT }))).toBe("Hello.");
});
