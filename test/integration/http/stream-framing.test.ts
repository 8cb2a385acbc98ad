import { expect, test } from "vitest";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { textOf } from "../../support/http/answer-check.ts";
import { jsonPost, RawConnection } from "../../support/http/raw-http.ts";
import { latch } from "../../support/latch.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";

const PATH = "/v1/chat/completions";
/** Of one to four bytes each, so that bytes and characters differ. */
const PIECES = ["plain", "ä", "中文", "👩‍💻", 'with " and \n', "end"];

const service = serviceOfFile({}, inPieces);

async function* inPieces() {
  yield [started(), textStart(0)];
  for (const piece of PIECES) {
    // One tick of the event loop each, so that each is written separately.
    await new Promise((resolve) => setImmediate(resolve));
    yield [delta(0, piece)];
  }
  yield [blockEnd(0), finished()];
}

test("of two streams requested at once on a connection, each chunk has its length, and the second is whole behind the first", async () => {
  const connection = await RawConnection.open(service.gateway.port);
  const [secondRan, first] = [latch(), "first "];
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
  connection.write(jsonPost(PATH, service.gateway.key, { ...MINIMAL[PATH], stream: true }).repeat(2));
  for (const mark of [first, ""]) {
    const { status, body } = await connection.reply();
    expect(status).toBe(200);
    expect(textOf(PATH, Buffer.from(body, "latin1").toString())).toBe(PIECES.map((piece) => mark + piece).join(""));
  }
  expect(calls).toBe(2);
  connection.destroy();
});
