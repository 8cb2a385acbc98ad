import { constants } from "node:http2";
import { status } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { framed } from "../../support/engine/raw-generate.ts";
import { type WireCall, WireNode } from "../../support/engine/wire-node.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { EngineProcess } from "../../support/processes/engine-process.ts";
import { expectOutcome, FaultBunch, type Phase, VARIANTS } from "../../support/processes/fault-bunch.ts";
import { FRONT_MODELS, startFront } from "../../support/processes/fault-front.ts";
import { healthy } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";

/* H5: invalid bytes of an engine on a real connection. The caller gets the answer of another engine or an error. */

const BEGUN = [started(), textStart(0), delta(0, "half")];

/** A message of 70 MiB, all of them in one unknown field. */
const HUGE = framed(Buffer.concat([Buffer.from([0xc2, 0x3e, 0x80, 0x80, 0x80, 0x23]), Buffer.alloc(70 * 1024 * 1024)]));

/** `finished` with -1 in that field of `usage`. */
function negativeUsage(field: number): Buffer {
  const minusOne = [...Array<number>(9).fill(0xff), 0x01];
  const usage = [field << 3, ...minusOne];
  const end = [0x08, 0x01, 0x22, usage.length, ...usage];
  const event = [FINISHED_TAG, end.length, ...end];
  return framed(Buffer.from([0x0a, event.length, ...event]));
}

/** Field 6 of an event, of length-delimited type. */
const FINISHED_TAG = (6 << 3) | 2;

type Nonsense = {
  readonly name: string;
  readonly phase: Phase;
  readonly detail: string;
  readonly play: (call: WireCall) => void | Promise<void>;
};

const EARLY = "before the first delta";
const LATE = "in the answer";

/** The same garbage at the start of an answer, and after its first delta. */
function everywhere(name: string, detail: string, play: Nonsense["play"]): readonly Nonsense[] {
  return [
    { name, phase: EARLY, detail, play },
    {
      ...{ name, phase: LATE, detail },
      play: async (call) => {
        call.send(...BEGUN);
        await play(call);
      },
    },
  ];
}

const PROTOCOL = "upstream_protocol_error";
const INTERNAL = "upstream_internal";

const NONSENSE: readonly Nonsense[] = [
  ...everywhere("a message of random bytes", PROTOCOL, (call) => call.bytes(framed(Buffer.alloc(64, 0xff)))),
  ...everywhere("a message of 70 MiB", PROTOCOL, (call) => call.bytes(HUGE)),
  ...everywhere("a message that says it is 4 GiB", PROTOCOL, (call) =>
    call.bytes(Buffer.from([0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3])),
  ),
  ...everywhere("a message in a compression that was not agreed on", INTERNAL, (call) =>
    call.bytes(Buffer.from([1, 0, 0, 0, 2, 1, 2])),
  ),
  ...everywhere("an end in the middle of a message", PROTOCOL, async (call) => {
    await call.bytes(Buffer.from([0, 0, 0, 0, 9, 1]));
    call.end();
  }),
  ...everywhere("an end that is no end of an answer", PROTOCOL, (call) => call.end()),
  ...everywhere("a reset of the stream", INTERNAL, (call) => call.stream.close(constants.NGHTTP2_INTERNAL_ERROR)),
  ...everywhere("a status that does not exist", INTERNAL, (call) => call.end(99 as status)),
  ...everywhere("a CANCELLED that the gateway did not cause", INTERNAL, (call) => call.end(status.CANCELLED)),
  ...everywhere("a count of -1", PROTOCOL, (call) => call.bytes(negativeUsage(4))),
  ...everywhere("a delta without a text", PROTOCOL, (call) => call.send(delta(0, ""))),
  ...everywhere("the end of a block that never began", PROTOCOL, (call) => call.send(blockEnd(3))),
  ...everywhere("a block of a kind that is none", PROTOCOL, (call) =>
    call.send({ kind: { $case: "blockStarted", value: { index: 0, block: undefined } } }),
  ),
  {
    ...{ name: "a reset that asks for calm", phase: EARLY, detail: "upstream_queue_full" },
    play: (call) => call.stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM),
  },
  { name: "a delta before the start", phase: EARLY, detail: PROTOCOL, play: (call) => call.send(delta(0, "early")) },
  {
    ...{ name: "a second start", phase: LATE, detail: PROTOCOL },
    play: (call) => call.send(...BEGUN) ?? call.send(started()),
  },
  {
    ...{ name: "an end while a block is open", phase: LATE, detail: PROTOCOL },
    play: (call) => call.send(...BEGUN) ?? call.send(finished()),
  },
];

describe("whatever an engine sends", () => {
  const running: { gateway?: GatewayProcess; good?: EngineProcess; wire?: WireNode } = {};
  let play: Nonsense["play"] = () => {};

  beforeAll(async () => {
    running.good = await EngineProcess.start("good", {}, FRONT_MODELS);
    running.wire = await WireNode.start({ models: FRONT_MODELS, play: (call) => play(call) });
    running.gateway = await startFront([running.wire.address, running.good.address]);
  });
  afterAll(async () => {
    await running.gateway?.end();
    running.wire?.stop();
    await running.good?.kill();
  });
  afterEach(async () => {
    await becomes(async () => (await running.gateway?.open()) === 0, "nothing is open in the gateway");
    await becomes(async () => (await running.good?.busy()) === 0, "no slot is taken");
  });

  test.each(NONSENSE.map((each) => [`${each.name} ${each.phase}`, each] as const))(
    "H5 %s",
    async (_title, nonsense) => {
      const { phase, detail } = nonsense;
      play = nonsense.play;
      const { gateway, good, wire } = running;
      if (!gateway || !good || !wire) throw new Error("they run inside tests only");
      for (const { address } of [wire, good]) await healthy(gateway, address);
      const outcomes = await FaultBunch.send(gateway).outcomes();
      for (const variant of VARIANTS)
        expectOutcome(variant, outcomes.get(variant), { phase, detail, good: good.address, continued: false });
      expect(outcomes.size).toBe(VARIANTS.length);
    },
  );
});
