import { once } from "node:events";
import {
  constants,
  createServer,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { EngineError, toFailedCall } from "../../../engine/errors.ts";
import { callGenerate } from "../../../gateway/upstream/call/generate-call.ts";
import type { Flow } from "../../../gateway/upstream/call/retry-boundary.ts";
import { Endpoint } from "../../../gateway/upstream/endpoint/endpoint.ts";
import { RequestBuffer } from "../../../gateway/upstream/request/request-buffer.ts";
import { type Event, GenerateResponse } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { framed } from "../../support/engine/raw-generate.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { DEFAULT_TIMEOUTS } from "../../support/gateway/default-settings.ts";
import { until } from "../../support/until.ts";

/* Both wires before one peer on bare HTTP/2: the code that uses them must see no difference. */

type Answer = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void;

/** Starts a server that reads each request and then answers it. */
async function peer(answer: Answer) {
  const server = createServer();
  const sessions: ServerHttp2Session[] = [];
  server.on("session", (session) => {
    sessions.push(session);
    session.on("error", () => {});
  });
  server.on("stream", (stream, headers) => {
    stream.on("error", () => {});
    stream.resume();
    stream.once("end", () => answer(stream, headers));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, sessions };
}

const HEAD = { ":status": 200, "content-type": "application/grpc" };
const EVENTS: readonly Event[] = [started(), textStart(0), delta(0, "a"), delta(0, "\u00e9b"), blockEnd(0), finished()];
const message = (...events: readonly Event[]) => framed(GenerateResponse.encode({ events, tokens: [] }).finish());
const ANSWER = Buffer.concat(EVENTS.map((event) => message(event)));

/** Sends a head, some bytes, and trailers. */
function reply(stream: ServerHttp2Stream, bytes: Uint8Array, trailers: Record<string, string>): void {
  stream.respond(HEAD, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers(trailers));
  stream.end(bytes);
}

const OK = { "grpc-status": "0" };
const whole: Answer = (stream) => reply(stream, ANSWER, OK);

/** An endpoint, and a client of its node. */
function caller(wire: "grpc" | "fast", address: string) {
  const endpoint = new Endpoint(address, undefined, wire);
  onTestFinished(() => endpoint.close());
  return {
    endpoint,
    send(timeoutMs = 60_000, leave = new AbortController()) {
      const texts: string[] = [];
      let flow: Flow | undefined;
      const failure = callGenerate(
        {
          endpoint,
          request: new RequestBuffer({ bytes: new Uint8Array(10) }, "tenant"),
          resumption: "resumable",
          headers: { traceparent: "00-1-2-01" },
          deadline: Date.now() + timeoutMs,
          clock: systemClock,
          timeouts: { ...DEFAULT_TIMEOUTS, connectMs: 20_000 },
          inputTokens: 1,
          observer: undefined,
          answer: { take: (events) => events, takeDeltas: () => true },
          boundary: {
            takesDeltas: true,
            pass(events, itsFlow) {
              flow = itsFlow;
              for (const { kind } of events) if (kind?.$case === "blockDelta") texts.push(kind.value.text);
            },
            passDeltas: (deltas) => texts.push(...deltas.texts),
          },
        },
        leave.signal,
      );
      return { texts, leave, flow: () => flow, outcome: failure.then((found) => found?.error.detail ?? "ok") };
    },
  };
}

/** The trailers of a node that refuses a call for a reason of the contract. */
function refusal(reason: ConstructorParameters<typeof EngineError>[0]): Record<string, string> {
  const { code, details = "", metadata } = toFailedCall(new EngineError(reason, "100 % full"), 1_000);
  const packed = metadata?.get("grpc-status-details-bin")[0];
  return {
    "grpc-status": String(code),
    "grpc-message": encodeURIComponent(details),
    "grpc-status-details-bin": Buffer.from(packed ?? "").toString("base64"),
  };
}

const trailersOnly = (stream: ServerHttp2Stream, trailers: Record<string, string>) =>
  stream.respond({ ...HEAD, ...trailers }, { endStream: true });

/** Sends the beginning of an answer, and continues when it has arrived. */
function begins(stream: ServerHttp2Stream, then: () => void): void {
  stream.respond(HEAD, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "14" }));
  stream.write(message(started()), () => stream.session?.ping(() => setTimeout(then, 20)));
}

/** Sends a head and some bytes, and no trailers. */
function ends(stream: ServerHttp2Stream, head: OutgoingHttpHeaders, bytes: Uint8Array | string): void {
  stream.respond(head);
  stream.end(bytes);
}

const ROWS: readonly (readonly [string, Answer, string])[] = [
  ["a whole answer", whole, "ok"],
  [
    "a refusal in trailers alone, with its reason",
    (s) => trailersOnly(s, refusal("QUEUE_FULL")),
    "upstream_queue_full",
  ],
  [
    "a refusal behind messages, with its reason",
    (s) => reply(s, message(started()), refusal("INVALID_REQUEST")),
    "engine_invalid_request",
  ],
  ["UNAVAILABLE at once", (s) => trailersOnly(s, { "grpc-status": "14" }), "upstream_connect_failure"],
  ["UNAVAILABLE behind a sign of life", (s) => begins(s, () => s.end()), "upstream_reset"],
  ["an unknown status", (s) => trailersOnly(s, { "grpc-status": "99" }), "upstream_internal"],
  [
    "503 of something in between",
    (s) => s.respond({ ":status": 503 }, { endStream: true }),
    "upstream_connect_failure",
  ],
  ["404 with a text", (s) => ends(s, { ":status": 404 }, "not here"), "upstream_internal"],
  ["an end without a status", (s) => ends(s, HEAD, ANSWER), "upstream_internal"],
  ["OK before the answer is whole", (s) => reply(s, message(started()), OK), "upstream_protocol_error"],
  ["an end in the middle of a message", (s) => reply(s, ANSWER.subarray(0, -1), OK), "upstream_protocol_error"],
  ["a stream that is refused", (s) => s.close(constants.NGHTTP2_REFUSED_STREAM), "upstream_connect_failure"],
  ["a stream that is reset", (s) => begins(s, () => s.close(constants.NGHTTP2_INTERNAL_ERROR)), "upstream_internal"],
  ["a stream that is to calm down", (s) => s.close(constants.NGHTTP2_ENHANCE_YOUR_CALM), "upstream_queue_full"],
  ["a connection that is lost at once", (s) => s.session?.destroy(), "upstream_connect_failure"],
  ["a connection that is lost in the answer", (s) => begins(s, () => s.session?.destroy()), "upstream_reset"],
  ["a message that is compressed", (s) => reply(s, Buffer.from([1, 0, 0, 0, 1, 0]), OK), "upstream_internal"],
  ["a message that is too large", (s) => reply(s, Buffer.from([0, 1, 0, 0, 0]), OK), "upstream_protocol_error"],
  ["what is no message", (s) => reply(s, framed(Buffer.from([0xff, 0xff])), OK), "upstream_protocol_error"],
];

describe.each(["grpc", "fast"] as const)("over %s", (wire) => {
  test.each(ROWS)("over a wire, %s has the outcome that it should have", async (_what, answer, expected) => {
    const { address } = await peer(answer);
    const { send } = caller(wire, address);
    const { outcome, texts } = send();
    expect(await outcome).toBe(expected);
    if (expected === "ok") expect(texts).toEqual(["a", "\u00e9b"]);
  });

  test("an answer that arrives byte by byte is read whole", async () => {
    const { address } = await peer(async (stream) => {
      stream.respond(HEAD, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers(OK));
      for (const byte of ANSWER) {
        stream.write(Buffer.from([byte]));
        await new Promise((resolve) => setImmediate(resolve));
      }
      stream.end();
    });
    const { outcome, texts } = caller(wire, address).send();
    expect([await outcome, texts]).toEqual(["ok", ["a", "\u00e9b"]]);
  });

  test("the head of a call has the fields of gRPC, its deadline and its trace", async () => {
    let head: IncomingHttpHeaders = {};
    const { address } = await peer((stream, headers) => {
      head = headers;
      whole(stream, headers);
    });
    expect(await caller(wire, address).send(5_000).outcome).toBe("ok");
    expect(head).toMatchObject({
      ":method": "POST",
      ":scheme": "http",
      ":authority": address,
      ":path": "/svc.inference.v1.InferenceService/Generate",
      te: "trailers",
      traceparent: "00-1-2-01",
    });
    expect(head["content-type"]).toMatch(/^application\/grpc/);
    expect(head["grpc-timeout"]).toMatch(/^\d{1,8}m$/);
  });

  test("the deadline ends a call, and a cancellation reaches the node", async () => {
    const codes: number[] = [];
    const { address } = await peer((stream) => {
      stream.once("close", () => codes.push(stream.rstCode));
      stream.respond(HEAD);
      stream.write(message(started()));
    });
    const { send } = caller(wire, address);
    expect(await send(300).outcome).toBe("upstream_timeout");
    const left = send();
    await until(() => left.flow() !== undefined, "the answer begins");
    left.leave.abort();
    await left.outcome;
    await until(() => codes.length === 2, "the node knows");
    expect(codes).toEqual([constants.NGHTTP2_CANCEL, constants.NGHTTP2_CANCEL]);
  });

  test("a call whose caller has left before it is opened ends, too", async () => {
    const leave = new AbortController();
    leave.abort();
    const { address } = await peer(whole);
    expect(await caller(wire, address).send(60_000, leave).outcome).toBe("upstream_internal");
  });

  test("after a GOAWAY running calls continue, and new ones use another connection", async () => {
    let first = true;
    const { address, sessions } = await peer((stream, headers) => {
      if (!first) return whole(stream, headers);
      first = false;
      stream.respond(HEAD, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers(OK));
      stream.write(message(...EVENTS.slice(0, 3)));
      stream.session?.close();
      setTimeout(() => stream.end(message(...EVENTS.slice(3))), 300);
    });
    const { send } = caller(wire, address);
    const running = send();
    await until(() => running.texts.length === 1, "the answer begins");
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await send().outcome).toBe("ok");
    expect(running.texts).toHaveLength(1);
    expect([await running.outcome, sessions.length]).toEqual(["ok", 2]);
  });

  test("a slow reader blocks no other, and its node has to wait", async () => {
    const many = message(...Array.from({ length: 16 }, () => delta(0, "x".repeat(1_000))));
    let sent = 0;
    let calls = 0;
    const { address } = await peer((stream, headers) => {
      calls += 1;
      if (calls > 1) return whole(stream, headers);
      stream.respond(HEAD);
      stream.write(message(started(), textStart(0), delta(0, "a")));
      const flood = () => {
        while (!stream.destroyed && stream.write(many)) sent += many.length;
        stream.once("drain", flood);
      };
      setTimeout(flood, 50);
    });
    const { send } = caller(wire, address);
    const slow = send();
    await until(() => slow.flow() !== undefined, "the answer begins");
    slow.flow()?.pause();
    let before = -1;
    while (before !== sent) {
      before = sent;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    expect(sent).toBeLessThan(1_000_000);
    expect(await send().outcome).toBe("ok");
    slow.flow()?.resume();
    await until(() => sent > before, "it goes on");
    slow.leave.abort();
    await slow.outcome;
  });
});
