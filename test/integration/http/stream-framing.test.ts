import { expect, test } from "vitest";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { gate } from "../../support/gate.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { head, RawConnection } from "../../support/http/raw-http.ts";
import { parseSse } from "../../support/http/sse-reader.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";

const PATH = "/v1/chat/completions";
/** Of one to four bytes each, so that bytes and characters differ. */
const PIECES = ["plain", "ä", "中文", "👩‍💻", 'with " and \n', "end"];

const service = serviceOfFile({}, inPieces);

async function* inPieces() {
  yield [started(), textStart(0)];
  for (const piece of PIECES) {
    // An event loop turn each, so that each is written separately.
    await new Promise((resolve) => setImmediate(resolve));
    yield [delta(0, piece)];
  }
  yield [blockEnd(0), finished()];
}

function streamRequest(version: string): string {
  const body = JSON.stringify({ ...MINIMAL[PATH], stream: true });
  const fields = ["host: test", `authorization: Bearer ${service.gateway.key}`, "content-type: application/json"];
  return head(`POST ${PATH} HTTP/${version}`, ...fields, `content-length: ${body.length}`) + body;
}

function textOf(stream: string): string {
  return parseSse(stream)
    .map(({ data }) => (data as { choices?: [{ delta?: { content?: string } }] }).choices?.[0]?.delta?.content ?? "")
    .join("");
}

function unframed(body: Buffer): { readonly text: string; readonly rest: string } {
  const pieces: Buffer[] = [];
  for (let at = 0; ; ) {
    const lineEnd = body.indexOf("\r\n", at);
    const size = Number.parseInt(body.toString("latin1", at, lineEnd), 16);
    const end = lineEnd + 2 + size;
    if (!(body.toString("latin1", end, end + 2) === "\r\n")) throw new Error("a chunk is not as long as it says");
    if (size === 0) return { text: Buffer.concat(pieces).toString(), rest: body.toString("latin1", end + 2) };
    pieces.push(body.subarray(lineEnd + 2, end));
    at = end + 2;
  }
}

test("every chunk of a stream has its announced length, and the last one ends it", async () => {
  const connection = await RawConnection.open(service.gateway.port);
  connection.write(streamRequest("1.1"));
  await connection.until("\r\n0\r\n\r\n");
  const [, body = ""] = connection.unread.split(/\r\n\r\n(.*)/s);
  const { text, rest } = unframed(Buffer.from(body, "latin1"));
  expect(textOf(text)).toBe(PIECES.join(""));
  expect(rest).toBe("");
  connection.destroy();
});

test("of two requests sent at once on a connection, the second answer stands whole behind the first", async () => {
  const connection = await RawConnection.open(service.gateway.port);
  const [secondRan, first] = [gate(), "first "];
  let calls = 0;
  service.play(async function* () {
    calls += 1;
    const isFirst = calls === 1;
    yield [started(), textStart(0)];
    // The second answer is complete while the first has the connection.
    if (isFirst) await secondRan.passed;
    for (const piece of PIECES) {
      await new Promise((resolve) => setImmediate(resolve));
      yield [delta(0, isFirst ? first + piece : piece)];
    }
    yield [blockEnd(0), finished()];
    if (!isFirst) setTimeout(() => secondRan.open(), 50);
  });
  connection.write(streamRequest("1.1") + streamRequest("1.1"));
  for (const mark of [first, ""]) {
    const { status, body } = await connection.reply();
    expect(status).toBe(200);
    expect(textOf(Buffer.from(body, "latin1").toString())).toBe(PIECES.map((piece) => mark + piece).join(""));
  }
  expect(calls).toBe(2);
  connection.destroy();
});
