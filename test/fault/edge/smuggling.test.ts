import { connect } from "node:http2";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { Http1Caller, rawConnection } from "../../support/edge/edge-caller.ts";
import { type EdgeRig, startEdge } from "../../support/edge/edge-rig.ts";
import { HAS_ENVOY, NO_ENVOY } from "../../support/edge/envoy-process.ts";

/* Ambiguous requests through Envoy: a gateway sees the requests that Envoy meant to send. */

const INNER = "GET /v1/models/smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
/** Header fields of a request whose body may be parsed as the next request. */
const FRAMINGS: readonly string[] = [
  "content-length: 4\r\ntransfer-encoding: chunked",
  "transfer-encoding: chunked\r\ncontent-length: 4",
  "content-length: 0\r\ncontent-length: 44",
  "content-length: 3, 3",
  "content-length: +4",
  "content-length: -1",
  "content-length: 0x4",
  "content-length : 4",
  "content-length:\r\n 4",
  "content-length: 18446744073709551616",
  "transfer-encoding: xchunked",
  "transfer-encoding: chunked, identity",
  "transfer-encoding: identity, chunked",
  "transfer-encoding: gzip, chunked",
  "transfer-encoding: chunked\r\ntransfer-encoding: identity",
  "transfer-encoding:\x0bchunked",
  "transfer-encoding : chunked",
  "transfer-encoding: chunked\r\n x: folded",
  "Transfer-Encoding: CHUNKED\r\ncontent-length: 6",
  "x-evil: a\ntransfer-encoding: chunked",
  "x-evil: a\rtransfer-encoding: chunked",
  "x-evil: a\0\r\ntransfer-encoding: chunked",
  "content_length: 4",
  "connection: content-length\r\ncontent-length: 44",
  "connection: transfer-encoding\r\ntransfer-encoding: chunked",
  "upgrade: websocket\r\nconnection: upgrade",
  "upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABkAAQAAP__",
  "expect: 100-continue\r\ncontent-length: 44",
  "expect: 100-continue\r\ntransfer-encoding: chunked",
  "host: y",
];
const CHUNKS: readonly string[] = [
  "0\r\n\r\n",
  "0\r\n\r\n\r\n",
  "0;a=b\nc\r\n\r\n",
  "00000000000000000\r\n\r\n",
  "1\r\nZ\r\nQ\r\n\r\n",
  "fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
  "2\r\nabcdef\r\n0\r\n\r\n",
  "0\r\ncontent-length: 44\r\n\r\n",
];

let rig: EdgeRig;
beforeAll(async () => {
  if (HAS_ENVOY) rig = await startEdge({});
});
afterAll(async () => {
  await rig?.end();
});

/** Writes bytes on a new connection, and waits until it closes or no more bytes are expected. */
async function write(bytes: string): Promise<void> {
  const socket = await rawConnection(rig.edge);
  socket.resume();
  socket.write(Buffer.from(bytes, "latin1"));
  await new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
    setTimeout(resolve, 150);
  });
  socket.destroy();
}

const post = (path: string, fields: string, body: string) =>
  `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${fields}\r\n\r\n${body}`;

async function mislengthened(length: number): Promise<void> {
  const session = connect(`https://127.0.0.1:${rig.edge.port}`, { ca: rig.edge.ca, servername: "localhost" });
  session.on("error", () => {});
  const stream = session.request({ ":method": "POST", ":path": "/v1/messages", "content-length": length });
  stream.on("error", () => {});
  stream.end(INNER);
  stream.resume();
  await new Promise<void>((resolve) => {
    stream.once("close", () => resolve());
    setTimeout(resolve, 300);
  });
  session.destroy();
}

describe.skipIf(!HAS_ENVOY)(`behind Envoy (${NO_ENVOY})`, () => {
  test("a gateway sees each request once, as Envoy sent it, and every caller gets the reply to its request", async () => {
    const bystander = new Http1Caller(rig.edge);
    const bystanders: [number, string | undefined][] = [];
    for (const [at, fields] of FRAMINGS.entries()) {
      const body = CHUNKS[at % CHUNKS.length] ?? "";
      for (const path of ["/v1/messages", "/v1/chat/completions"]) await write(post(path, fields, body + INNER));
      // A caller that shares the edge's connections to the gateways would receive the reply to a smuggled request.
      const answer = await bystander.post("/v1/messages/count_tokens", { model: "svc-qwen", messages: [] });
      bystanders.push([answer.status, ((await answer.json()) as { readonly type?: string }).type]);
    }
    for (const body of CHUNKS) await write(post("/v1/responses", "transfer-encoding: chunked", body + INNER));
    for (const length of [0, 3, INNER.length + 5]) await mislengthened(length);
    bystander.close();

    expect(bystanders).toEqual(bystanders.map(() => [400, "error"]));
    // Envoy also logs a gateway for requests that it abandons before sending a byte.
    const sent = () => rig.envoy.log.filter(({ upstream }) => upstream !== null);
    const answered = () => sent().filter(({ request_id }) => request_id !== null);
    const pair = (line: Readonly<Record<string, unknown>>) => `${line.client_request_id} ${line.request_id}`;
    const seen = () => rig.logged().map(pair);
    await becomes(async () => answered().every((line) => seen().includes(pair(line))), "all are logged");
    // Envoy flushes its log periodically.
    const sentOn = (one: unknown) => sent().some(({ client_request_id }) => client_request_id === one);
    const all = async () => rig.logged().every(({ client_request_id }) => sentOn(client_request_id));
    await becomes(all, "a gateway saw nothing that Envoy did not send");
    expect(new Set(rig.logged().map(({ client_request_id }) => client_request_id)).size).toBe(rig.logged().length);
    // Unambiguous requests came through, so the others were checked.
    expect(answered().length).toBeGreaterThanOrEqual(bystanders.length);
    expect(rig.envoy.log.length).toBeGreaterThan(sent().length);
  });
});
