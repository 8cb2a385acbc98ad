import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Event, FinishReason, GenerateResponse } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Capability, Modality } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { framed } from "../../support/engine/raw-generate.ts";
import { type WireCall, WireNode } from "../../support/engine/wire-node.ts";
import { blockEnd, delta, finished, started, textAnswer, textStart } from "../../support/events/events.ts";
import { ANSWER_PATHS, bodyFor, endOf, textOf } from "../../support/http/answer-check.ts";
import { readBody } from "../../support/http/read-until.ts";
import { latch } from "../../support/latch.ts";
import { outcomeOf } from "../../support/processes/fault-front.ts";
import { healthy } from "../../support/processes/fleet.ts";
import { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

/* Unusual but valid answers: slow, in odd pieces, empty, or of a newer engine. */

type Play = (call: WireCall) => void | Promise<void>;

/** Field 1000 with the number 1, which no message defines. */
const UNKNOWN_FIELD = new Uint8Array([0xc0, 0x3e, 0x01]);
const UNKNOWN_VALUE = 99;
const KEEP_ALIVE_MS = 100;
const INJECTIONS = [
  ...["\n", "\r", "\r\n", "\n\n", "[DONE]", "data: [DONE]\n\n", '\n\ndata: {"x":1}\n\n', "event: error\n", ": c\n"],
  ...["\0", "\u2028", "\u2029", '"}', "\\", "</s>", "id: 1\n", "retry: 0\n"],
];

let node: WireNode;
let gateway: GatewayProcess;
let play: Play = () => {};

beforeAll(async () => {
  node = await WireNode.start({
    models: ["svc-qwen"],
    play: (call) => play(call),
    unknownFields: UNKNOWN_FIELD,
    describe: { capabilities: [UNKNOWN_VALUE as Capability], inputModalities: [1, UNKNOWN_VALUE as Modality] },
  });
  const { address } = node;
  gateway = await GatewayProcess.start({
    clusters: [{ model: "svc-qwen", endpoints: [{ address }], outlierDetection: { consecutiveGatewayFailure: 0 } }],
    timeouts: { keepAliveIntervalMs: KEEP_ALIVE_MS },
  });
  await healthy(gateway, address);
});
afterAll(async () => {
  await gateway?.end();
  node?.stop();
});

function playing(next: Play): void {
  play = next;
}

function bytesOf(...events: readonly Event[]): Uint8Array {
  return GenerateResponse.encode({ events: [...events], tokens: [] }).finish();
}

async function streamed(path: (typeof ANSWER_PATHS)[number]): Promise<string> {
  const response = await gateway.post(path, bodyFor(path, "hi", { stream: true }));
  expect(response.status).toBe(200);
  return response.text();
}

describe.each(ANSWER_PATHS)("%s", (path) => {
  test("E1 and E2 a text that looks like the end of a stream, or like another event, is text", async () => {
    playing((call) => {
      call.send(...textAnswer(...INJECTIONS));
      call.end();
    });
    const text = await streamed(path);
    expect(textOf(path, text)).toBe(INJECTIONS.join(""));
    expect(endOf(path, text)).toEqual({ end: "complete" });
  });

  test("E1 and E4 any text in any pieces arrives as it is", async () => {
    const chance = new SeededRandom(3);
    const pieces = Array.from({ length: 300 }, () => {
      const code = chance.pick([0x7f, 0x7ff, 0xd7ff, 0x10ffff]);
      const points = Array.from({ length: 1 + chance.below(5) }, () => chance.below(code));
      return points.map((point) => String.fromCodePoint(point >= 0xd800 && point <= 0xdfff ? 0x20 : point)).join("");
    });
    playing(async (call) => {
      const bytes = Buffer.concat(textAnswer(...pieces).map((event) => framed(bytesOf(event))));
      // Frames may end anywhere, also within characters.
      for (let at = 0; at < bytes.length; ) {
        const length = 1 + chance.below(9);
        await call.bytes(bytes.subarray(at, at + length));
        at += length;
      }
      call.end();
    });
    const text = await streamed(path);
    expect(textOf(path, text)).toBe(pieces.join(""));
    expect(endOf(path, text)).toEqual({ end: "complete" });
  });

  test("H4 100,000 messages with nothing in them are no answer, and no harm", async () => {
    const empty = Buffer.concat(Array<Buffer>(1_000).fill(framed(bytesOf())));
    playing(async (call) => {
      call.send(started(), textStart(0), delta(0, "be"));
      for (let sent = 0; sent < 100_000; sent += 1_000) await call.bytes(empty);
      call.send(delta(0, "hind"), blockEnd(0), finished());
      call.end();
    });
    const text = await streamed(path);
    expect(textOf(path, text)).toBe("behind");
    expect(endOf(path, text)).toEqual({ end: "complete" });
  });

  test("H4 and E8 a slow engine is bridged by signs of life between any two deltas", async () => {
    const next = [latch(), latch(), latch()];
    playing(async (call) => {
      call.send(started(), textStart(0));
      for (const [index, { passed }] of next.entries()) {
        await passed;
        call.send(delta(0, `piece${index} `));
      }
      call.send(blockEnd(0), finished());
      call.end();
    });
    const signs = { "/v1/chat/completions": /^:/gm, "/v1/messages": /^event: ping/gm, "/v1/responses": /keepalive/gm };
    const count = (text: string) => [...text.matchAll(signs[path])].length;
    const body = readBody(await gateway.post(path, bodyFor(path, "hi", { stream: true })));
    for (const { open } of next) {
      const before = count(body.text());
      await body.until((text) => count(text) > before + 2);
      open();
    }
    const text = await body.toEnd();
    expect(textOf(path, text)).toBe("piece0 piece1 piece2 ");
    expect(endOf(path, text)).toEqual({ end: "complete" });
  });

  test.each([true, false])("H7 an answer without a delta is valid, and distinguishable (stream %s)", async (stream) => {
    playing((call) => {
      call.send(started(), finished(FinishReason.STOP, { outputTokens: 0 }));
      call.end();
    });
    const firstTokens = () => gateway.stat("svc_time_to_first_token_seconds_count");
    const before = await firstTokens();
    const { status, text, log } = await outcomeOf(gateway, await gateway.post(path, bodyFor(path, "hi", { stream })));
    expect(status).toBe(200);
    if (stream) expect({ ...endOf(path, text), text: textOf(path, text) }).toEqual({ end: "complete", text: "" });
    else expect(text).toMatch(/"(?:output_tokens|completion_tokens)":0\b/);
    expect(log).toMatchObject({ code: 200, end_reason: "complete", output_tokens: 0 });
    expect(await firstTokens()).toBe(before);
  });

  test("H5 a text that is no UTF-8 never reaches a client as such", async () => {
    playing(async (call) => {
      const text = bytesOf(...textAnswer("<?>"));
      const at = Buffer.from(text).indexOf("<?>") + 1;
      text[at] = 0xff;
      await call.bytes(framed(text));
      call.end();
    });
    const response = await gateway.post(path, bodyFor(path, "hi", { stream: true }));
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await response.arrayBuffer());
    expect(textOf(path, text)).toBe("<\ufffd>");
  });

  test("H5 events after the end are dropped", async () => {
    playing((call) => {
      call.send(...textAnswer("whole"));
      call.send(finished());
      call.send(...textAnswer("second"));
      call.end();
    });
    const text = await streamed(path);
    expect(textOf(path, text)).toBe("whole");
    expect(endOf(path, text)).toEqual({ end: "complete" });
  });

  test("H5 and J8 an unknown finish reason is an end", async () => {
    playing((call) => {
      call.send(started(), textStart(0), delta(0, "done"), blockEnd(0), finished(UNKNOWN_VALUE as FinishReason));
      call.end();
    });
    const text = await streamed(path);
    expect(endOf(path, text)).toEqual({ end: "complete" });
    expect(text).not.toContain(`:${UNKNOWN_VALUE}`);
  });

  test("J8 unknown fields of a newer engine are ignored", async () => {
    playing(async (call) => {
      for (const event of textAnswer("as ", "ever")) {
        await call.bytes(framed(Buffer.concat([bytesOf(event), UNKNOWN_FIELD])));
        // An event of an unknown kind.
        const unknown = new Uint8Array([0x0a, UNKNOWN_FIELD.length, ...UNKNOWN_FIELD]);
        if (event.kind?.$case !== "finished") await call.bytes(framed(unknown));
      }
      call.end();
    });
    const text = await streamed(path);
    expect(textOf(path, text)).toBe("as ever");
    expect(endOf(path, text)).toEqual({ end: "complete" });
    const folded = await gateway.post(path, bodyFor(path, "hi"));
    expect({ status: folded.status, text: await folded.text() }).toMatchObject({
      status: 200,
      text: expect.stringContaining("as ever"),
    });
  });
});
