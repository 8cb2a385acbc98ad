import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { Http2Connection } from "../../../gateway/upstream/wire/http2/connection.ts";
import { ErrorCode, Flag, FrameType } from "../../../gateway/upstream/wire/http2/frames.ts";
import type { Headers } from "../../../gateway/upstream/wire/http2/hpack.ts";
import { headerBlock } from "../../../gateway/upstream/wire/http2/hpack.ts";
import type { Http2Stream } from "../../../gateway/upstream/wire/http2/stream.ts";
import { frame, headersFrame, RawHttp2Peer, settings, uint32 } from "../../support/gateway/raw-http2-peer.ts";
import { threadCpuMs } from "../../support/thread-cpu.ts";
import { until } from "../../support/until.ts";

/* The client's side of a connection, by the sections of RFC 9113. */

const BLOCK = headerBlock([
  [":method", "POST"],
  [":scheme", "http"],
  [":authority", "node"],
  [":path", "/p"],
]);
const OK: Headers = { ":status": "200" };
const TRAILERS: Headers = { "grpc-status": "0" };
const LAST = Flag.END_STREAM | Flag.END_HEADERS;

const {
  CANCEL,
  COMPRESSION_ERROR,
  ENHANCE_YOUR_CALM,
  FLOW_CONTROL_ERROR,
  FRAME_SIZE_ERROR,
  PROTOCOL_ERROR,
  REFUSED_STREAM,
} = ErrorCode;
const { CONTINUATION, DATA, GOAWAY, HEADERS, PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE } =
  FrameType;
/* The settings by their numbers in RFC 9113. */
const MAX_CONCURRENT_STREAMS = 3;
const INITIAL_WINDOW_SIZE = 4;
const MAX_FRAME_SIZE = 5;

/** A connection to a port, and its events. */
async function connected(port: number) {
  const said: string[] = [];
  const socket: Socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  socket.once("close", () => said.push("closed"));
  socket.on("data", (bytes) => connection.take(bytes));
  const connection = new Http2Connection(socket, {
    standing: () => said.push("standing"),
    goingAway: (code, words) => said.push(`going away ${code} ${words}`),
  });
  connection.begin();
  await once(socket, "connect");
  return { connection, said };
}

/** Opens a stream, and records its events. */
function opened(connection: Http2Connection, message = Buffer.from("message")) {
  const got: string[] = [];
  let taken = false;
  const stream: Http2Stream = connection.open(BLOCK, {
    headers: (headers) => got.push(`headers ${JSON.stringify(headers)}`),
    data: (bytes, from, to) => got.push(bytes.toString("latin1", from, to)),
    trailers: (headers) => got.push(`trailers ${JSON.stringify(headers)}`),
    ended: () => got.push("ended"),
    broken: (code, lost) => got.push(`broken ${code}${lost ? " lost" : ""}`),
  });
  stream.send([message], () => {
    taken = true;
  });
  return { stream, got, taken: () => taken };
}

/** A connection whose peer has sent its settings. */
async function standing(...parameters: readonly (readonly [number, number])[]) {
  const peer = await RawHttp2Peer.start();
  onTestFinished(() => peer.close());
  const { connection, said } = await connected(peer.port);
  await until(() => peer.greeted, "the connection begins");
  peer.send(frame(SETTINGS, 0, 0, settings(...parameters)));
  await until(() => said.includes("standing"), "it stands");
  return { peer, connection, said };
}

const ANSWERED = ['headers {":status":"200"}', "abc", 'trailers {"grpc-status":"0"}', "ended"];
const answer = (id: number) => [
  headersFrame(id, OK),
  frame(0, 0, id, Buffer.from("abc")),
  headersFrame(id, TRAILERS, LAST),
];

test("a whole answer; settings and pings are answered, and unknown frames are ignored", async () => {
  const { peer, connection } = await standing([0xf0, 1]);
  const { got, taken } = opened(connection);
  expect(await peer.headersOf(1)).toEqual({
    ":method": "POST",
    ":scheme": "http",
    ":authority": "node",
    ":path": "/p",
  });
  const body = await peer.came(DATA);
  expect([body.payload.toString(), body.flags, taken()]).toEqual(["message", Flag.END_STREAM, true]);
  peer.send(frame(0xee, 0xff, 1, Buffer.alloc(50)), frame(PRIORITY, 0, 1, Buffer.alloc(5)));
  peer.send(...answer(1));
  await until(() => got.includes("ended"), "the answer ends");
  expect(got).toEqual(ANSWERED);
  expect(peer.of(SETTINGS).map(({ flags }) => flags)).toEqual([0, Flag.ACK]);
  peer.send(frame(PING, 0, 0, Buffer.from("opaque!!")));
  const ping = await peer.came(PING);
  expect([ping.payload.toString(), ping.flags]).toEqual(["opaque!!", Flag.ACK]);
});

test("frames that arrive byte by byte, padded, in parts and after the maximum of interim answers", async () => {
  const { peer, connection } = await standing();
  const { got } = opened(connection);
  await peer.came(DATA);
  const block = headerBlock(Object.entries(OK));
  const padded = Buffer.concat([Buffer.from([3]), Buffer.alloc(5), block.subarray(0, 4), Buffer.alloc(3)]);
  await peer.trickle(
    Buffer.concat([
      ...Array.from({ length: 16 }, () => headersFrame(1, { ":status": "103", link: "x" })),
      frame(HEADERS, Flag.PADDED | Flag.PRIORITY, 1, padded),
      frame(CONTINUATION, 0, 1, block.subarray(4, 7)),
      frame(CONTINUATION, Flag.END_HEADERS, 1, block.subarray(7)),
      frame(DATA, Flag.PADDED, 1, Buffer.concat([Buffer.from([2]), Buffer.from("abc"), Buffer.alloc(2)])),
      frame(DATA, Flag.PADDED, 1, Buffer.from([0])),
      headersFrame(1, TRAILERS, LAST),
    ]),
  );
  await until(() => got.includes("ended"), "the answer ends");
  expect(got).toEqual(ANSWERED);
});

test("a message goes no faster than the windows of its stream and of the connection", async () => {
  const { peer, connection } = await standing([INITIAL_WINDOW_SIZE, 10]);
  const { taken } = opened(connection, Buffer.alloc(70_000, "m"));
  await until(() => peer.bodyBytes(1) === 10, "the first window is used");
  await peer.settled();
  expect(peer.bodyBytes(1)).toBe(10);
  peer.send(frame(WINDOW_UPDATE, 0, 1, uint32(5)));
  await until(() => peer.bodyBytes(1) === 15, "more is sent");
  // The connection's own window is now smaller than the stream's.
  peer.send(frame(SETTINGS, 0, 0, settings([INITIAL_WINDOW_SIZE, 100_000])));
  await until(() => peer.bodyBytes(1) === 65_535, "the connection's window is used");
  await peer.settled();
  expect([peer.bodyBytes(1), taken()]).toEqual([65_535, false]);
  peer.send(frame(WINDOW_UPDATE, 0, 0, uint32(10_000)));
  await until(() => peer.bodyBytes(1) === 70_000, "the rest arrives");
  expect(taken()).toBe(true);
  expect(
    peer
      .of(DATA)
      .map(({ flags }) => flags & Flag.END_STREAM)
      .filter(Boolean),
  ).toHaveLength(1);
});

test("shrunk windows become negative, and frames use the maximum size", async () => {
  const { peer, connection } = await standing([INITIAL_WINDOW_SIZE, 40_000]);
  opened(connection, Buffer.alloc(70_000, "m"));
  await until(() => peer.bodyBytes(1) === 40_000, "the first window is used");
  expect(Math.max(...peer.of(DATA).map(({ payload }) => payload.length))).toBe(16_384);
  peer.send(frame(SETTINGS, 0, 0, settings([INITIAL_WINDOW_SIZE, 10_000])));
  peer.send(frame(WINDOW_UPDATE, 0, 1, uint32(30_000)));
  await peer.settled();
  expect(peer.bodyBytes(1)).toBe(40_000);
  peer.send(frame(WINDOW_UPDATE, 0, 1, uint32(1)));
  await until(() => peer.bodyBytes(1) === 40_001, "a byte more may be sent");
});

test("a big message does not delay a small one", async () => {
  const { peer, connection } = await standing([INITIAL_WINDOW_SIZE, 1_000_000]);
  peer.send(frame(WINDOW_UPDATE, 0, 0, uint32(10_000_000)));
  await peer.settled();
  opened(connection, Buffer.alloc(900_000, "m"));
  const small = opened(connection);
  await until(() => small.taken() && peer.bodyBytes(1) === 900_000, "both are sent");
  const order = peer.of(DATA).map(({ streamId }) => streamId);
  expect(order.indexOf(3)).toBeLessThan(5);
});

test("streams wait if the peer limits their number", async () => {
  const { peer, connection } = await standing([MAX_CONCURRENT_STREAMS, 1]);
  const streams = [opened(connection), opened(connection), opened(connection)];
  await peer.settled();
  expect(peer.of(HEADERS)).toHaveLength(1);
  // A waiting stream that is cancelled never begins.
  streams[1]?.stream.cancel();
  peer.send(...answer(1));
  await until(() => peer.bodyBytes(3) === 7, "the next begins, with its message");
  peer.send(...answer(3));
  await until(() => streams[2]?.got.includes("ended") ?? false, "and ends");
  expect(streams.map(({ got }) => got)).toEqual([ANSWERED, [], ANSWERED]);
  opened(connection);
  opened(connection);
  await peer.settled();
  peer.send(frame(SETTINGS, 0, 0, settings([MAX_CONCURRENT_STREAMS, 2])));
  await until(() => peer.of(HEADERS).length === 4, "more may begin");
});

test("a peer that goes away refuses unprocessed streams, and ends the rest", async () => {
  const { peer, connection, said } = await standing();
  const [kept, refused] = [opened(connection), opened(connection)];
  await until(() => peer.of(HEADERS).length === 2, "both have begun");
  peer.send(frame(GOAWAY, 0, 0, Buffer.concat([uint32(1, 11), Buffer.from("too_many_pings")])));
  await until(() => refused.got.length > 0, "the second is refused");
  expect([refused.got, connection.usable]).toEqual([["broken 7"], false]);
  expect(said).toEqual(["standing", "going away 11 too_many_pings"]);
  peer.send(...answer(1));
  await until(() => said.includes("closed"), "the connection closes behind the last answer");
  expect(kept.got).toEqual(ANSWERED);
});

test("frames of cancelled streams are ignored, and the connection's window is returned", async () => {
  const { peer, connection } = await standing();
  const { stream, got } = opened(connection);
  await peer.came(DATA);
  stream.cancel();
  const reset = await peer.came(RST_STREAM);
  expect([reset.streamId, reset.payload.readUInt32BE(0)]).toEqual([1, CANCEL]);
  const updates = () => peer.of(WINDOW_UPDATE, 0).length;
  const before = updates();
  for (let sent = 0; sent < 1_100_000; sent += 10_000) peer.send(frame(DATA, 0, 1, Buffer.alloc(10_000)));
  peer.send(headersFrame(1, TRAILERS, LAST));
  await until(() => updates() > before, "the window is given back");
  expect(got).toEqual([]);
  const other = opened(connection);
  await peer.came(HEADERS, 3);
  peer.send(...answer(3));
  await until(() => other.got.includes("ended"), "the other answer ends");
});

test("one-byte frames for a paused reader take up little more than their bytes, and are read at once", async () => {
  const { peer, connection } = await standing();
  const slow = Array.from({ length: 8 }, () => opened(connection));
  await peer.came(DATA, 15);
  for (const { stream } of slow) stream.pause();
  const before = process.memoryUsage().heapUsed;
  for (const id of slow.map((_, at) => 2 * at + 1)) {
    const many = Buffer.concat(Array.from({ length: 1_024 }, () => frame(DATA, 0, id, Buffer.from("m"))));
    peer.send(headersFrame(id, OK), ...Array.from({ length: 64 }, () => many), headersFrame(id, TRAILERS, LAST));
  }
  await peer.settled();
  // An object for each of the half a million would take 70 MB.
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(25_000_000);
  for (const { stream } of slow) stream.resume();
  await until(() => slow.every(({ got }) => got.includes("ended")), "all are read");
  for (const { got } of slow) expect(got.join("").match(/m{65536}/)).not.toBeNull();
});

test("initial windows that change repeatedly cost no more for many streams than for one", async () => {
  const changes = Array.from({ length: 2_700 }, (_, at) => [INITIAL_WINDOW_SIZE, 65_535 + (at % 2)] as const);
  const frames = Array.from({ length: 50 }, () => frame(SETTINGS, 0, 0, settings(...changes)));
  const cost = async (streams: number) => {
    const { peer, connection } = await standing();
    for (let at = 0; at < streams; at += 1) opened(connection);
    await peer.came(DATA, 2 * streams - 1);
    const before = threadCpuMs();
    peer.send(...frames);
    await peer.settled();
    return threadCpuMs() - before;
  };
  const one = await cost(1);
  expect(await cost(900)).toBeLessThan(10 * one);
});

test("an answer before the end of the message stops the sending", async () => {
  const { peer, connection } = await standing([INITIAL_WINDOW_SIZE, 10]);
  const { got } = opened(connection, Buffer.alloc(100, "m"));
  await until(() => peer.bodyBytes(1) === 10, "the first window is used");
  peer.send(headersFrame(1, { ...OK, "grpc-status": "8" }, LAST));
  await peer.came(RST_STREAM, 1);
  peer.send(frame(WINDOW_UPDATE, 0, 1, uint32(1_000)));
  await peer.settled();
  expect([got.at(-1), peer.bodyBytes(1)]).toEqual(["ended", 10]);
});

test("a lost connection breaks all its streams, waiting ones as well", async () => {
  const { peer, connection } = await standing([MAX_CONCURRENT_STREAMS, 1]);
  const streams = [opened(connection), opened(connection)];
  await peer.came(DATA);
  peer.close();
  await until(() => streams.every(({ got }) => got.length > 0), "they are broken");
  expect([...streams.map(({ got }) => got), connection.usable]).toEqual([["broken 0 lost"], ["broken 0 lost"], false]);
});

describe("an invalid frame ends the connection", () => {
  const GARBAGE = Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
  const HUGE = headerBlock([["x", "y".repeat(16_000)]]);

  test.each<readonly [what: string, code: number, frames: Buffer[]]>([
    ["DATA of the connection", PROTOCOL_ERROR, [frame(DATA, 0, 0, GARBAGE)]],
    ["DATA of an idle stream", PROTOCOL_ERROR, [frame(DATA, 0, 3, GARBAGE)]],
    ["DATA of a stream of its own", PROTOCOL_ERROR, [frame(DATA, 0, 2, GARBAGE)]],
    ["more padding than DATA", PROTOCOL_ERROR, [frame(DATA, Flag.PADDED, 1, Buffer.from([1]))]],
    ["padding without its length", PROTOCOL_ERROR, [frame(DATA, Flag.PADDED, 1)]],
    ["a frame larger than agreed", FRAME_SIZE_ERROR, [frame(DATA, 0, 1, Buffer.alloc(16_385))]],
    ["HEADERS of the connection", PROTOCOL_ERROR, [headersFrame(0, OK)]],
    ["more padding than HEADERS", PROTOCOL_ERROR, [frame(HEADERS, Flag.PADDED | LAST, 1, GARBAGE)]],
    ["a priority that is cut", PROTOCOL_ERROR, [frame(HEADERS, Flag.PRIORITY, 1, Buffer.alloc(4))]],
    ["headers that cannot be read", COMPRESSION_ERROR, [frame(HEADERS, LAST, 1, GARBAGE)]],
    [
      "headers without an end",
      ENHANCE_YOUR_CALM,
      [frame(HEADERS, 0, 1, HUGE), ...Array.from({ length: 4 }, () => frame(CONTINUATION, 0, 1, HUGE))],
    ],
    [
      "headers in parts that are empty",
      ENHANCE_YOUR_CALM,
      [frame(HEADERS, 0, 1), ...Array.from({ length: 100 }, () => frame(CONTINUATION, 0, 1))],
    ],
    ["a part of no headers", PROTOCOL_ERROR, [frame(CONTINUATION, 0, 1)]],
    ["something between parts of headers", PROTOCOL_ERROR, [frame(HEADERS, 0, 1), frame(DATA, 0, 1)]],
    ["a part of other headers", PROTOCOL_ERROR, [frame(HEADERS, 0, 1), frame(CONTINUATION, Flag.END_HEADERS, 3)]],
    ["SETTINGS of a stream", PROTOCOL_ERROR, [frame(SETTINGS, 0, 1)]],
    ["SETTINGS that are cut", FRAME_SIZE_ERROR, [frame(SETTINGS, 0, 0, Buffer.alloc(5))]],
    ["an answer with SETTINGS", FRAME_SIZE_ERROR, [frame(SETTINGS, Flag.ACK, 0, Buffer.alloc(6))]],
    [
      "a window that cannot be",
      FLOW_CONTROL_ERROR,
      [frame(SETTINGS, 0, 0, settings([INITIAL_WINDOW_SIZE, 0x8000_0000]))],
    ],
    [
      "frames that may be smaller than any",
      PROTOCOL_ERROR,
      [frame(SETTINGS, 0, 0, settings([MAX_FRAME_SIZE, 16_383]))],
    ],
    ["PING of a stream", PROTOCOL_ERROR, [frame(PING, 0, 1, Buffer.alloc(8))]],
    ["PING that is cut", FRAME_SIZE_ERROR, [frame(PING, 0, 0, Buffer.alloc(7))]],
    ["GOAWAY of a stream", PROTOCOL_ERROR, [frame(GOAWAY, 0, 1, Buffer.alloc(8))]],
    [
      "GOAWAY again and again",
      ENHANCE_YOUR_CALM,
      Array.from({ length: 17 }, () => frame(GOAWAY, 0, 0, uint32(0x7fff_ffff, 0))),
    ],
    ["GOAWAY that is cut", FRAME_SIZE_ERROR, [frame(GOAWAY, 0, 0, Buffer.alloc(7))]],
    ["a window made wider by nothing", PROTOCOL_ERROR, [frame(WINDOW_UPDATE, 0, 0, uint32(0))]],
    ["a window wider than it can be", FLOW_CONTROL_ERROR, [frame(WINDOW_UPDATE, 0, 0, uint32(0x7fff_ffff))]],
    ["WINDOW_UPDATE that is cut", FRAME_SIZE_ERROR, [frame(WINDOW_UPDATE, 0, 0, Buffer.alloc(3))]],
    ["WINDOW_UPDATE of an idle stream", PROTOCOL_ERROR, [frame(WINDOW_UPDATE, 0, 5, uint32(1))]],
    ["RST_STREAM that is cut", FRAME_SIZE_ERROR, [frame(RST_STREAM, 0, 1, Buffer.alloc(3))]],
    ["RST_STREAM of an idle stream", PROTOCOL_ERROR, [frame(RST_STREAM, 0, 5, uint32(0))]],
    ["PUSH_PROMISE", PROTOCOL_ERROR, [frame(PUSH_PROMISE, LAST, 1, uint32(2))]],
  ])("an invalid frame ends the HTTP/2 connection: %s", async (_what, code, frames) => {
    const { peer, connection, said } = await standing();
    const { got } = opened(connection);
    await peer.came(DATA, 1);
    peer.send(...frames, ...answer(1));
    await until(() => said.includes("closed"), "the connection ends");
    // Nothing after the fault was accepted.
    expect([got, connection.usable]).toEqual([["broken 0 lost"], false]);
    expect((await peer.came(GOAWAY)).payload.readUInt32BE(4)).toBe(code);
  });

  test("any frame before SETTINGS ends the HTTP/2 connection", async () => {
    const peer = await RawHttp2Peer.start();
    onTestFinished(() => peer.close());
    const { said } = await connected(peer.port);
    await until(() => peer.greeted, "the connection begins");
    peer.send(Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n"));
    await until(() => said.includes("closed"), "the connection ends");
    expect(said).toEqual(["closed"]);
  });
});

describe("an invalid frame of a stream ends that stream", () => {
  test.each<readonly [what: string, code: number, frames: Buffer[]]>([
    ["DATA before headers", PROTOCOL_ERROR, [frame(DATA, 0, 1, Buffer.from("a"))]],
    ["headers without a status", PROTOCOL_ERROR, [headersFrame(1, { a: "b" })]],
    ["a name in capitals", PROTOCOL_ERROR, [headersFrame(1, { ...OK, Name: "x" })]],
    ["a line's end in a value", PROTOCOL_ERROR, [headersFrame(1, { ...OK, a: "b\r\nc" })]],
    ["headers in the middle", PROTOCOL_ERROR, [headersFrame(1, OK), headersFrame(1, OK)]],
    [
      "interim answers without an end",
      ENHANCE_YOUR_CALM,
      Array.from({ length: 17 }, () => headersFrame(1, { ":status": "100" })),
    ],
    ["a window made wider by nothing", PROTOCOL_ERROR, [frame(WINDOW_UPDATE, 0, 1, uint32(0))]],
    ["a window wider than it can be", FLOW_CONTROL_ERROR, [frame(WINDOW_UPDATE, 0, 1, uint32(0x7fff_ffff))]],
  ])("an invalid frame of a stream ends that stream only: %s", async (_what, code, frames) => {
    const { peer, connection } = await standing();
    const [bad, good] = [opened(connection), opened(connection)];
    await peer.came(DATA, 3);
    peer.send(...frames, ...answer(1), ...answer(3));
    await until(() => good.got.includes("ended"), "the other goes on");
    expect(good.got).toEqual(ANSWERED);
    expect(bad.got.at(-1)).toBe(`broken ${code}`);
    expect((await peer.came(RST_STREAM, 1)).payload.readUInt32BE(0)).toBe(code);
  });

  test("more than the window of an unread stream", async () => {
    const { peer, connection } = await standing();
    const { stream, got } = opened(connection);
    await peer.came(DATA, 1);
    stream.pause();
    peer.send(headersFrame(1, OK), ...Array.from({ length: 5 }, () => frame(0, 0, 1, Buffer.alloc(16_000))));
    await until(() => got.length > 1, "the stream is broken");
    expect(got.at(-1)).toBe(`broken ${FLOW_CONTROL_ERROR}`);
  });

  test("a stream that the peer resets reports why", async () => {
    const { peer, connection } = await standing();
    const { got } = opened(connection);
    await peer.came(DATA, 1);
    peer.send(frame(RST_STREAM, 0, 1, uint32(REFUSED_STREAM)), ...answer(1));
    await peer.settled();
    expect(got).toEqual(["broken 7"]);
  });
});
