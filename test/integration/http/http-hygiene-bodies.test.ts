import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import zlib from "node:zlib";
import { describe, expect, test } from "vitest";
import { fixedSentence } from "../../support/engine/scripted-backend.ts";
import { CHAT, expectRefusal, HOST, JSON_TYPE, MAX_BODY, RawCaller } from "../../support/gateway/raw-caller.ts";
import { head } from "../../support/http/raw-http.ts";
import { until } from "../../support/until.ts";

/* Rows of the list of faults that the gateway itself has to answer, by number, byte by byte: bodies. */

const caller = new RawCaller(fixedSentence);
/** With the default limit of gateways, and time: it shares its process with callers that make megabytes. */
const spacious = new RawCaller(fixedSentence, {
  maxBodyBytes: 32 * 1024 * 1024,
  timeouts: { requestTimeoutMs: 30_000 },
});

describe("B: bodies", () => {
  const PATHS = [
    ["/v1/chat/completions", "a"],
    ["/v1/messages", "b"],
    ["/v1/messages/count_tokens", "b"],
    ["/v1/responses", "a"],
  ] as const;

  /** A body that is valid except for `text`, which is inserted as a field. */
  const withField = (text: string) => `{"model":"svc-qwen","messages":[{"role":"user","content":"hi"}],${text}}`;
  const deep = (levels: number) => withField(`"x":${"[".repeat(levels)}${"]".repeat(levels)}`);
  const bytes = (...values: number[]) => String.fromCharCode(...values);

  test.each<readonly [row: string, body: string]>([
    ["B1 empty", ""],
    ["B1 white space", " \n\t"],
    ["B1 cut", '{"evil":'],
    ["B1 with something behind it", `${CHAT} evil`],
    ["B1 with a comment", `/* evil */${CHAT}`],
    ["B1 in single quotes", "{'evil':1}"],
    ["B1 with NaN", withField('"top_p":NaN')],
    ["B1 with Infinity", withField('"top_p":-Infinity')],
    ["B2 with 1e999", withField('"top_p":1e999')],
    ["B4 a list", "[]"],
    ["B4 null", "null"],
    ["B4 a string", '"evil"'],
    ["B4 a number", "3"],
    ["B5 with the model twice", withField('"model":"svc-evil"')],
    ["B5 with an escaped name twice", withField('"mod\\u0065l":"svc-evil"')],
    ["B5 with stream twice", withField('"stream":true,"stream":false')],
    ["B7 of 65 levels", deep(64)],
    ["B7 of 20,000 levels", deep(20_000)],
    ["B9 with the byte ff", withField(`"x":"${bytes(0xff)}"`)],
    ["B9 with an overlong form", withField(`"x":"${bytes(0xc0, 0xaf)}"`)],
    ["B9 with a sequence that is cut", withField(`"x":"${bytes(0xe2, 0x82)}"`)],
    ["B9 in UTF-16", Buffer.from(CHAT, "utf16le").toString("latin1")],
    ["B10 with a lone surrogate in a name", withField('"\\ud800":1')],
  ])("%s is 400 in every envelope", async (_row, body) => {
    for (const [path, envelope] of PATHS) expectRefusal(await caller.sent(caller.post(path, body)), 400, envelope);
  });

  test("B1 a byte order mark is skipped", async () => {
    expect((await caller.sent(caller.post("/v1/chat/completions", bytes(0xef, 0xbb, 0xbf) + CHAT))).status).toBe(200);
  });

  /** More values than any client sends, in 16 MiB. */
  const filled = (item: string, count: number) => `[${`${item},`.repeat(count - 1)}${item}]`;
  const MESSAGES = filled('{"role":"user","content":"x"}', 500_000);

  test.each<readonly [row: string, path: string, envelope: "a" | "b", body: string]>([
    ["empty objects", "/v1/chat/completions", "a", filled("{}", 5_592_405)],
    ["empty objects in a field", "/v1/responses", "a", withField(`"x":${filled("{}", 5_592_000)}`)],
    ["numbers", "/v1/messages/count_tokens", "b", withField(`"x":${filled("0", 8_388_000)}`)],
    ["small messages", "/v1/messages", "b", `{"model":"svc-qwen","max_tokens":1,"messages":${MESSAGES}}`],
    ["small items", "/v1/responses", "a", `{"model":"svc-qwen","input":${MESSAGES}}`],
  ])("B8 of 16 MiB of %s for %s is 400", async (_row, path, envelope, body) => {
    const reply = await spacious.sent(spacious.post(path, body));
    expectRefusal(reply, 400, envelope);
    expect(reply.body).toContain("200000 values");
  });

  test.each<readonly [value: string, status: number]>([
    ["9007199254740993", 400],
    ["1e21", 400],
    ["1", 200],
    ["-0", 400],
    ['"5"', 400],
    ["1.5", 400],
    ["true", 400],
  ])("B3 max_tokens %s is %i", async (value, status) => {
    for (const [path, envelope] of PATHS.slice(0, 2)) {
      const reply = await caller.sent(caller.post(path, withField(`"max_tokens":${value}`)));
      if (status === 200) expect(reply.status).toBe(200);
      else expectRefusal(reply, status, envelope);
    }
  });

  test("B6 names of prototypes are data, and stay so", async () => {
    const schema = '{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"}}}';
    const tool = `"tools":[{"type":"function","function":{"name":"edit","parameters":${schema}}}]`;
    const polluting =
      '"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"\\u005f_proto__":{"polluted":1}';
    expect((await caller.sent(caller.post("/v1/chat/completions", withField(`${tool},${polluting}`)))).status).toBe(
      200,
    );
    expect(Reflect.get({}, "polluted")).toBeUndefined();
    const sentTool = caller.engine.backend.requests.at(-1)?.tools[0];
    expect(JSON.parse(sentTool?.parametersJsonSchema ?? "")).toEqual(JSON.parse(schema));
  });

  test("B10 and B11 a lone surrogate is replaced, controls and everything else arrive as they are", async () => {
    const content = '"a\\ud800b \\u0000\\u001b\\u2028\\u202e \\ud83d\\ude80"';
    const body = CHAT.replace('"hi"', content);
    expect((await caller.sent(caller.post("/v1/chat/completions", body))).status).toBe(200);
    const kind = caller.engine.backend.requests.at(-1)?.messages[0]?.parts[0]?.kind;
    expect(kind).toMatchObject({ value: { text: "a\ufffdb \0\u001b\u2028\u202e 🚀" } });
  });

  test("B12 a body above the limit is 413 before it is sent, and while it is", async () => {
    const chunk = `10000\r\n${"x".repeat(MAX_BODY)}\r\n`;
    const uploads = PATHS.flatMap(([path, envelope]) => [
      { envelope, bytes: caller.post(path, "", [`content-length: ${MAX_BODY + 1}`]) },
      { envelope, bytes: caller.post(path, chunk + chunk, ["transfer-encoding: chunked"]) },
    ]);
    await Promise.all(uploads.map(({ envelope, bytes }) => caller.refused(bytes, 413, envelope)));
  });

  test.each([
    ["POST /v1/evil HTTP/1.1", 404, "a"],
    ["POST /v1/messages/evil HTTP/1.1", 404, "b"],
    ["PUT /v1/chat/completions HTTP/1.1", 405, "a"],
  ] as const)("B12 a body for %s, where nothing takes one, is not waited for", async (line, status, envelope) => {
    const unfinished = head(line, HOST, JSON_TYPE, `content-length: ${MAX_BODY}`) + "x".repeat(1_000);
    await caller.refused(unfinished, status, envelope);
    expect(caller.gateway.overload.bodies.bytes).toBe(0);
    expect((await caller.sent(`${head(line, HOST, JSON_TYPE, "content-length: 2")}{}`)).status).toBe(status);
  });

  test("B12 chunked bodies of one-byte chunks, with extensions and trailers, and the next requests are read", async () => {
    const chunks = [...CHAT].map((byte) => `1;a=b\r\n${byte}\r\n`).join("");
    const chunked = caller.post("/v1/chat/completions", `${chunks}0\r\nx-evil: 1\r\n\r\n`, [
      "transfer-encoding: chunked",
    ]);
    const one = (await caller.connection()).write(chunked + caller.chat() + chunked + caller.get("/v1/models"));
    for (let reply = 0; reply < 4; reply += 1) expect((await one.reply()).status).toBe(200);
    expect(caller.gateway.overload.bodies.bytes).toBe(0);
  });

  test("B12 an aborted upload releases its bytes, and counts once", async () => {
    const { overload, log } = caller.gateway;
    const lines = () => log.filter((line) => line.includes('"detail":"downstream_remote_disconnect"')).length;
    const before = lines();
    const senders = await Promise.all(Array.from({ length: 20 }, () => caller.connection()));
    for (const one of senders) one.write(caller.post("/v1/messages", " ".repeat(2_000), ["content-length: 60000"]));
    await until(() => overload.bodies.bytes === 40_000, "all is counted");
    for (const [at, one] of senders.entries()) {
      if (at % 2 === 0) one.reset();
      else one.destroy();
    }
    await until(() => lines() === before + 20, "each has its line");
    expect(overload.bodies.bytes).toBe(0);
  });

  test("B12 a body shorter than announced is 400 when its sender stops, and 408 when it waits", async () => {
    const stops = (await caller.connection())
      .write(caller.post("/v1/chat/completions", CHAT, ["content-length: 999"]))
      .endWriting();
    expectRefusal(await stops.reply(), 400);
    await caller.refused(caller.post("/v1/messages", CHAT, ["content-length: 999"]), 408, "b");
  });

  test("a stalled body is 408 in the log too, with the request id of the reply", async () => {
    const waits = (await caller.connection()).write(caller.post("/v1/messages", CHAT, ["content-length: 999"]));
    const id = (await waits.reply()).headers.get("x-request-id") ?? "";
    await waits.untilClosed();
    const line = () => caller.gateway.log.find((one) => one.includes(id));
    await until(() => line() !== undefined, "it has its line");
    expect(JSON.parse(line() ?? "")).toMatchObject({ code: 408, route: "/v1/messages", detail: "request_timeout" });
  });

  test("connections end that were refused for their time, although their senders keep their half", async () => {
    const { sockets } = caller.gateway;
    const before = sockets.open;
    const begun = (await caller.connection()).write("GET /v1/models HTTP/1.1\r\n");
    const waits = (await caller.connection()).write(caller.post("/v1/messages", CHAT, ["content-length: 999"]));
    expectRefusal(await begun.reply(), 408);
    expectRefusal(await waits.reply(), 408, "b");
    await until(() => sockets.open <= before, "none is left");
  });

  test("invalid bytes are logged with the request id of the reply", async () => {
    const refused = await caller.sent("evil\r\n\r\n");
    expectRefusal(refused, 400);
    const line = caller.gateway.log.find((one) => one.includes(refused.headers.get("x-request-id") ?? ""));
    expect(JSON.parse(line ?? "")).toMatchObject({ code: 400, route: "unknown", detail: "bad_request" });
    expect(line).not.toContain("evil");
  });

  test("a connection on which nothing ever came is closed without a word", async () => {
    const silent = await caller.connection();
    const begun = (await caller.connection()).write("GET /v1/models HTTP/1.1\r\n");
    await silent.untilClosed();
    expect(silent.unread).toBe("");
    expectRefusal(await begun.reply(), 408);
  });

  test("B12 surplus bytes of a body are refused after its reply, never read as a part of it", async () => {
    const one = await caller.connection();
    one.write(`${caller.chat()}evil bytes\r\n\r\n`);
    const reply = await one.reply();
    expect([200, 400]).toContain(reply.status);
    await one.untilClosed();
    if (one.unread !== "") expectRefusal(await one.reply(), 400);
    expect(one.unread).toBe("");
  });

  test.each<readonly [type: string, status: number]>([
    ["", 415],
    ["content-type: text/plain", 415],
    ["content-type: application/xml", 415],
    ["content-type: application/json garbage", 415],
    ["content-type: application/jsonx", 415],
    ["content-type: application/vnd.evil+json", 415],
    ["content-type: application/x-www-form-urlencoded", 415],
    ["content-type: application/json\r\ncontent-type: text/evil", 400],
    ["content-type: application/json; charset=utf-16", 400],
    ["content-type: APPLICATION/JSON", 200],
    ["content-type: application/json; charset=UTF-8", 200],
    ['content-type: application/json;charset="utf-8"', 200],
    ["content-type: application/json; profile=x", 200],
  ])("B13 %s is %i", async (type, status) => {
    const fields = [HOST, caller.auth, `content-length: ${CHAT.length}`, ...(type === "" ? [] : [type])];
    const reply = await caller.sent(head("POST /v1/chat/completions HTTP/1.1", ...fields) + CHAT);
    if (status === 200) expect(reply.status).toBe(200);
    else expectRefusal(reply, status);
  });

  /** Every coding of this Node, the bytes of a coded text as Latin-1. */
  const coded: Readonly<Record<string, (text: string) => Buffer>> = {
    gzip: zlib.gzipSync,
    "x-gzip": zlib.gzipSync,
    deflate: zlib.deflateSync,
    br: zlib.brotliCompressSync,
    // Absent from the oldest supported Node.
    ...("zstdCompressSync" in zlib && { zstd: zlib.zstdCompressSync as (text: string) => Buffer }),
  };
  const inCoding = (coding: string, text: string) => coded[coding]?.(text).toString("latin1") ?? "";
  const codedPost = (path: string, coding: string, body: string, ...fields: readonly string[]) =>
    caller.post(path, body, [
      `content-encoding: ${coding}`,
      ...(fields.length > 0 ? fields : [`content-length: ${body.length}`]),
    ]);

  test.each(Object.keys(coded))("B14 a body in %s is read, with a length and in chunks", async (coding) => {
    const body = inCoding(coding, CHAT);
    const plain = JSON.parse((await caller.sent(caller.chat())).body).choices;
    const chunks = [...body].map((byte) => `1\r\n${byte}\r\n`).join("");
    const one = await caller.connection();
    one.write(codedPost("/v1/chat/completions", coding, body));
    one.write(codedPost("/v1/chat/completions", coding, `${chunks}0\r\n\r\n`, "transfer-encoding: chunked"));
    one.write(caller.chat("content-encoding: identity"));
    for (let at = 0; at < 3; at += 1) {
      const reply = await one.reply();
      expect(reply.status).toBe(200);
      expect(JSON.parse(reply.body).choices).toEqual(plain);
    }
    expect(caller.gateway.overload.bodies.bytes).toBe(0);
  });

  test.each(Object.keys(coded))("B14 a body in %s that is broken, cut or empty is 400", async (coding) => {
    const body = inCoding(coding, CHAT);
    for (const [path, envelope] of PATHS)
      for (const broken of [CHAT, body.slice(0, -3), body.slice(0, 3), ""]) {
        const reply = await caller.sent(codedPost(path, coding, broken));
        expectRefusal(reply, 400, envelope);
        // Node skips the parser of a body without a byte.
        if (broken !== "") expect(reply.body).toContain(`valid ${coding}`);
      }
    expect(caller.gateway.overload.bodies.bytes).toBe(0);
  });

  const FAST = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } };
  const coder: Readonly<Record<string, () => NodeJS.ReadWriteStream>> = {
    deflate: () => zlib.createDeflate(),
    br: () => zlib.createBrotliCompress(FAST),
    ...("createZstdCompress" in zlib && { zstd: zlib.createZstdCompress as () => NodeJS.ReadWriteStream }),
  };
  /**
   * 200 MiB of spaces in a coding. It is made in pieces beside the event loop: the gateway shares the test's process and
   * refuses requests while its loop is 3 s late.
   */
  const bombIn = async (coding: string) => {
    const piece = Buffer.alloc(1024 * 1024, " ");
    const pieces = Readable.from(Array.from({ length: 200 }, () => piece));
    return (await buffer(pieces.pipe(coder[coding]?.() ?? zlib.createGzip()))).toString("latin1");
  };

  test.each(Object.keys(coded))("B14 a body in %s counts decoded, and decoding stops at the limit", async (coding) => {
    const bomb = await bombIn(coding);
    expect(bomb.length).toBeLessThan(MAX_BODY * 4);
    const before = process.memoryUsage().rss;
    for (const [path, envelope] of PATHS)
      await caller.refused(codedPost(path, coding, bomb.slice(0, MAX_BODY - 1)), 413, envelope);
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024);
    expect(caller.gateway.overload.bodies.bytes).toBe(0);
  });

  test("B14 coded bytes count as well, where they decode to nothing", async () => {
    const nothing = inCoding("gzip", "").repeat(MAX_BODY / 16);
    const chunk = `${nothing.length.toString(16)}\r\n${nothing}\r\n`;
    await caller.refused(codedPost("/v1/messages", "gzip", chunk, "transfer-encoding: chunked"), 413, "b");
  });

  test("B14 an upload that breaks off in its coding releases its bytes", async () => {
    const one = await caller.connection();
    const body = inCoding("gzip", JSON.stringify([...Array(4_000).keys()]));
    one.write(codedPost("/v1/messages", "gzip", body.slice(0, -200), `content-length: ${body.length}`));
    await until(() => caller.gateway.overload.bodies.bytes > 0, "a part has arrived");
    one.reset();
    await until(() => caller.gateway.overload.bodies.bytes === 0, "it is released");
  });

  test.each([
    ["gzip, gzip", 400],
    ["identity, gzip", 400],
    ["compress", 415],
    ["__proto__", 415],
    ["", 200],
  ])("B14 the content coding '%s' is %i", async (coding, status) => {
    const reply = await caller.sent(caller.chat(`content-encoding: ${coding}`));
    if (status === 200) expect(reply.status).toBe(200);
    else expectRefusal(reply, status);
    if (status === 415) expect(reply.body).toContain("gzip, deflate, br");
  });

  test("B15 a query string is ignored and not logged", async () => {
    for (const query of ["?stream=true", `?${"evil=1&".repeat(1_024)}`, "?%00%zz"]) {
      const reply = await caller.sent(caller.chat().replace("/completions ", `/completions${query} `));
      expect([reply.status, reply.headers.get("content-type")]).toEqual([200, "application/json; charset=utf-8"]);
    }
    expect(caller.gateway.log.join("")).not.toContain("evil");
  });

  const part = (url: string) => `{"role":"user","content":[{"type":"image_url","image_url":{"url":"${url}"}}]}`;
  const BODY_WITH: Readonly<Record<string, (text: string) => string>> = {
    model: (text) => CHAT.replace("svc-qwen", text),
    role: (text) => CHAT.replace("user", text),
    stop: (text) => withField(`"stop":"${text}"`),
    prompt_cache_key: (text) => withField(`"prompt_cache_key":"${text}"`),
    "name of a tool": (text) => withField(`"tools":[{"type":"function","function":{"name":"${text}"}}]`),
    "address of an image": (text) => `{"model":"svc-qwen","messages":[${part(`data:${text}`)}]}`,
  };

  test.each(Object.entries(BODY_WITH))(
    "B16 a %s that is made to be slow to match is answered",
    async (_what, bodyWith) => {
      for (const text of ["a".repeat(50_000), "(a+)+$".repeat(8_000), "\\\\".repeat(20_000), " ".repeat(50_000)]) {
        const reply = await caller.sent(caller.post("/v1/chat/completions", bodyWith(text)));
        expect([200, 400]).toContain(reply.status);
        // An error names the fault and does not repeat the body.
        if (reply.status === 400) expect(reply.body.length).toBeLessThan(500);
      }
    },
  );
});
