import { describe, expect, test } from "vitest";
import { fixedSentence } from "../../support/engine/scripted-backend.ts";
import { CHAT, expectRefusal, HOST, JSON_TYPE, MAX_BODY, RawCaller } from "../../support/gateway/raw-caller.ts";
import { head, type RawReply } from "../../support/http/raw-http.ts";

/* Rows of the list of faults that the gateway itself has to answer, by number, byte by byte: framing. */

const caller = new RawCaller(fixedSentence);

describe("A: framing", () => {
  const both = "content-length: 4\r\ntransfer-encoding: chunked";
  const other = "transfer-encoding: chunked\r\ncontent-length: 4";

  test.each<readonly [row: string, fields: string]>([
    ["A1 length and chunked", both],
    ["A1 chunked and length", other],
    ["A2 two lengths", "content-length: 3\r\ncontent-length: 4"],
    ["A2 two equal lengths", "content-length: 3\r\ncontent-length: 3"],
    ["A2 a list of lengths", "content-length: 3, 3"],
    ["A2 a length with a plus", "content-length: +3"],
    ["A2 a negative length", "content-length: -1"],
    ["A2 a hexadecimal length", "content-length: 0x3"],
    ["A2 a length of 2^64", "content-length: 18446744073709551616"],
    ["A3 chunked, then identity", "transfer-encoding: chunked, identity"],
    ["A3 xchunked", "transfer-encoding: xchunked"],
    ["A3 transfer-encoding twice", "transfer-encoding: chunked\r\ntransfer-encoding: chunked"],
    ["A3 a vertical tab", "transfer-encoding: \x0bchunked"],
    ["A4 gzip, then chunked", "transfer-encoding: gzip, chunked"],
    ["A5 a space before the colon", "content-length : 3"],
    ["A5 a folded line", "x-evil: a\r\n b\r\ncontent-length: 3"],
    ["A5 a folded length", "content-length:\r\n 3"],
    ["A5 a bare line feed", "x-evil: a\ncontent-length: 3"],
    ["A5 a bare carriage return", "x-evil: a\rb\r\ncontent-length: 3"],
    ["A5 a NUL", "x-evil: a\0b\r\ncontent-length: 3"],
    ["A5 two carriage returns", "x-evil: a\r\r\ncontent-length: 3"],
  ])("%s is 400 and the end of the connection", async (_row, fields) => {
    for (const [path, envelope] of [
      ["/v1/chat/completions", "a"],
      ["/v1/messages", "b"],
    ] as const) {
      await caller.refused(caller.post(path, "0\r\n\r\n", [fields]), 400, envelope);
    }
  });

  test.each([
    ["a size that overflows", "fffffffffffffffff\r\nabc\r\n0\r\n\r\n"],
    ["data longer than its size", "2\r\nabcdef\r\n0\r\n\r\n"],
    ["a line feed in an extension", "3;a=b\nc\r\nabc\r\n0\r\n\r\n"],
    ["an extension of 20 KiB", `3;a=${"x".repeat(20 * 1024)}\r\nabc\r\n0\r\n\r\n`],
  ])("A6 a chunk with %s is 400", async (_what, body) => {
    await caller.refused(caller.post("/v1/chat/completions", body, ["transfer-encoding: chunked"]), [400, 413]);
  });

  test("A7 trailers do not become header fields", async () => {
    const chunk = `${CHAT.length.toString(16)}\r\n${CHAT}\r\n0\r\n`;
    const body = `${chunk}authorization: Bearer ${caller.gateway.key}\r\nx-api-key: evil\r\n\r\n`;
    const fields = [HOST, JSON_TYPE, "transfer-encoding: chunked", "trailer: authorization"];
    const unkeyed = await caller.sent(head("POST /v1/chat/completions HTTP/1.1", ...fields) + body);
    expectRefusal(unkeyed, 401);
    const one = await caller.connection();
    one.write(head("POST /v1/chat/completions HTTP/1.1", caller.auth, ...fields) + body + caller.get("/v1/models"));
    expect((await one.reply()).status).toBe(200);
    expect((await one.reply()).body).toContain('"object":"list"');
    const length = await caller.sent(
      `${head("POST /v1/chat/completions HTTP/1.1", caller.auth, ...fields)}${chunk}content-length: 5\r\n\r\n`,
    );
    expectRefusal(length, 400);
  });

  test("A8 the body of a GET is not the next request, and each request needs its own key", async () => {
    const inner = "GET /v1/evil HTTP/1.1\r\n\r\n";
    const one = await caller.connection();
    one.write(caller.get("/v1/models", `content-length: ${inner.length}`) + inner);
    one.write(head("GET /v1/models HTTP/1.1", HOST) + caller.get("/v1/models/svc-qwen"));
    expect((await one.reply()).body).toContain('"object":"list"');
    expectRefusal(await one.reply(), 401);
    expect((await one.reply()).body).toContain('"id":"svc-qwen"');
    expect(one.unread).toBe("");
  });

  test.each([
    ["no host", () => head("GET /v1/models HTTP/1.1", caller.auth)],
    ["two hosts", () => caller.get("/v1/models", "host: evil.test")],
    ["a target of another scheme", () => caller.get("ftp://evil.test/v1/models")],
    ["an asterisk", () => caller.get("*")],
  ])("A9 %s is 400", async (_what, request) => {
    expectRefusal(await caller.sent(request()), 400);
  });

  test.each([
    ["http://evil.test/v1/models", 200],
    ["HTTPS://user@evil.test:8443/v1/models?x=1", 200],
    ["http://evil.test?x", 404],
    ["http://evil.test/v1/none", 404],
  ])("A9 the target %s counts by its path: %i", async (target, status) => {
    expect((await caller.sent(caller.get(target))).status).toBe(status);
  });

  test("A9 an empty host is one", async () => {
    expect((await caller.sent(head("GET /v1/models HTTP/1.1", "host:", caller.auth))).status).toBe(200);
  });

  test("A9 CONNECT is closed without an answer", async () => {
    const one = await caller.connection();
    one.write(head("CONNECT evil.test:443 HTTP/1.1", HOST));
    await one.untilClosed();
    expect(one.unread).toBe("");
  });

  test("A10 HTTP/1.0 is answered without chunks", async () => {
    const one = await caller.connection();
    one.write(head("GET /v1/models HTTP/1.0", caller.auth));
    const reply = await one.reply();
    expect(reply.status).toBe(200);
    expect(reply.headers.has("transfer-encoding")).toBe(false);
    await one.untilClosed();
  });

  test.each([
    ["HTTP/9.9", () => head("GET /v1/models HTTP/9.9", HOST, caller.auth)],
    ["HTTP/1.2", () => head("GET /v1/models HTTP/1.2", HOST, caller.auth)],
    ["HTTP/2.0 in the line", () => head("GET /v1/models HTTP/2.0", HOST, caller.auth)],
    ["the preface of HTTP/2", () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["a TLS hello", () => "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03evil"],
    ["a method in lower case", () => head("get /v1/models HTTP/1.1", HOST, caller.auth)],
    ["an unknown method", () => head("EVIL /v1/models HTTP/1.1", HOST, caller.auth)],
  ])("A10 %s is 400 and the end of the connection", async (_what, request) => {
    await caller.refused(request(), 400);
  });

  test.each(["websocket", "h2c"])("A11 an upgrade to %s is answered as if it were not asked for", async (protocol) => {
    const fields = ["connection: Upgrade, HTTP2-Settings", `upgrade: ${protocol}`, "http2-settings: AAMAAABkAAQAAP__"];
    const one = await caller.connection();
    one.write(caller.get("/v1/models", ...fields) + caller.get("/v1/evil"));
    const reply = await one.reply();
    expect([reply.status, reply.headers.get("connection")]).toEqual([200, "close"]);
    await one.untilClosed();
    expect(one.unread).toBe("");
  });

  test("A12 a body above the limit, or without a key, is not invited", async () => {
    const expectContinue = ["expect: 100-continue", `content-length: ${MAX_BODY + 1}`];
    for (const path of ["/v1/chat/completions", "/v1/messages"] as const) {
      const envelope = path === "/v1/messages" ? "b" : "a";
      expectRefusal(await caller.sent(caller.post(path, "", expectContinue)), 413, envelope);
      const unkeyed = head(`POST ${path} HTTP/1.1`, HOST, JSON_TYPE, "expect: 100-continue", "content-length: 9");
      expectRefusal(await caller.sent(unkeyed), 401, envelope);
    }
    expectRefusal(await caller.sent(caller.chat("expect: 200-ok")), 417);
  });

  test("A12 a body that is welcome is invited once", async () => {
    const one = await caller.connection();
    one.write(caller.post("/v1/chat/completions", "", ["expect: 100-continue", `content-length: ${CHAT.length}`]));
    expect((await one.reply()).status).toBe(100);
    one.write(CHAT);
    expect((await one.reply()).status).toBe(200);
  });

  test("A13 header fields above 16 KiB are 431", async () => {
    expectRefusal(await caller.sent(caller.get("/v1/models", `x-evil: ${"x".repeat(17 * 1024)}`)), 431);
  });

  test.each([81, 3_000])("A13 %i header fields are 431", async (count) => {
    expectRefusal(await caller.sent(caller.get("/v1/models", ...Array.from({ length: count }, () => "a:"))), 431);
  });

  test("A13 bytes above ASCII in a field are taken and not sent back", async () => {
    const reply = await caller.sent(caller.get("/v1/models", "x-evil: \x80\xff\xfe", "x-request-id: evil"));
    expect(reply.status).toBe(200);
    expect([...reply.headers].join()).not.toMatch(/evil|[\x80-\xff]/);
  });

  test("A14 a connection serves a thousand requests in their order, and no more", async () => {
    const one = await caller.connection();
    let last: RawReply | undefined;
    // A hundred at once: the requests behind them must arrive within the time limit, on a busy machine too.
    for (let batch = 0; batch < 10; batch += 1) {
      one.write((caller.get("/v1/models/svc-qwen") + caller.get("/v1/models/svc-glm53")).repeat(50));
      for (let count = 0; count < 100; count += 1) {
        last = await one.reply();
        expect(last.body).toContain(count % 2 === 0 ? '"id":"svc-qwen"' : '"id":"svc-glm53"');
      }
    }
    expect(last?.headers.get("connection")).toBe("close");
    expect((await one.write(caller.get("/v1/models")).reply()).status).toBe(503);
  });

  test.each([
    ["//v1/models", [404]],
    ["/v1/./models", [404]],
    ["/v1%2fmodels", [404]],
    ["/v1/models/..%2f..%2fetc", [404]],
    ["/v1/models/%00", [400, 404]],
    ["/v1/models/%zz", [400]],
    [`/v1/models/${"x".repeat(300)}`, [404]],
    [`/v1/models/${"x".repeat(600)}`, [404, 414]],
    ["/v1/models/svc-qwen;x", [404]],
    ["/V1/MODELS", [404]],
    ["/v1/models/", [404]],
    ["/v1/chat/completions/", [404]],
  ])("A16 the path %s has no second reading", async (path, statuses) => {
    const reply = await caller.sent(caller.get(path));
    expectRefusal(reply, statuses);
    expect(reply.body).not.toContain("xxxxxxxxxxxx".repeat(10));
  });

  test("A17 wrong methods are 405 with those that are right, in the envelope of the path", async () => {
    for (const method of ["TRACE", "OPTIONS", "PUT", "DELETE", "PATCH", "PROPFIND"]) {
      const models = await caller.sent(head(`${method} /v1/models HTTP/1.1`, HOST, caller.auth));
      expectRefusal(models, 405);
      expect(models.headers.get("allow")).toBe("GET, HEAD");
      expect(models.headers.has("access-control-allow-origin")).toBe(false);
      const messages = await caller.sent(head(`${method} /v1/messages HTTP/1.1`, HOST, caller.auth));
      expectRefusal(messages, 405, "b");
      expect(messages.headers.get("allow")).toBe("POST");
    }
    // An agent that tries to stream over WebSocket falls back to HTTP only at this status.
    const upgrade = [caller.auth, "connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13"];
    const refused = await caller.sent(head("GET /v1/responses HTTP/1.1", HOST, ...upgrade));
    expectRefusal(refused, 426);
    expect(refused.headers.get("upgrade")).toBe("HTTP/1.1");
    const one = await caller.connection();
    one.write(head("HEAD /v1/models HTTP/1.1", HOST, caller.auth) + caller.get("/v1/models/svc-qwen"));
    expect((await one.reply(true)).status).toBe(200);
    expect((await one.reply()).body).toContain('"id":"svc-qwen"');
  });
});
