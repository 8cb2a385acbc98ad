import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { receiveBody } from "../../../gateway/http/body/body-upload.ts";

let server: Server;
const sockets: Socket[] = [];

beforeAll(async () => {
  server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});
afterAll(() => server.close());

/** A request whose head has arrived, and the connection for its body. */
async function begun(...fields: readonly string[]): Promise<{ request: IncomingMessage; socket: Socket }> {
  const { port } = server.address() as AddressInfo;
  const socket = connect(port, "127.0.0.1");
  sockets.push(socket);
  socket.on("error", () => {});
  const arrived = once(server, "request");
  socket.write(`${["POST / HTTP/1.1", "host: a", ...fields].join("\r\n")}\r\n\r\n`);
  const [request] = await arrived;
  return { request, socket };
}

const CHUNKED = "transfer-encoding: chunked";
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
const ignore = () => {};

test("gives the whole body, and its parts as they arrive", async () => {
  const { request, socket } = await begun(CHUNKED);
  const parts: string[] = [];
  let partCame = () => {};
  const first = new Promise<void>((resolve) => {
    partCame = resolve;
  });
  const body = receiveBody(request, 100, (part) => {
    parts.push(part.toString());
    partCame();
  });
  socket.write(chunk("abc"));
  await first;
  expect(parts).toEqual(["abc"]);
  socket.write(`${chunk("de")}0\r\n\r\n`);
  expect((await body).toString()).toBe("abcde");
  expect(parts.join("")).toBe("abcde");
});

test("puts a body of very many tiny parts together in their order", async () => {
  const { request, socket } = await begun(CHUNKED);
  const text = Array.from({ length: 5_000 }, (_, at) => String.fromCharCode(97 + (at % 26))).join("");
  socket.write(`${[...text].map(chunk).join("")}0\r\n\r\n`);
  let parts = 0;
  const body = await receiveBody(request, text.length, () => {
    parts += 1;
  });
  expect([parts, body.toString()]).toEqual([text.length, text]);
});

test("takes as much as allowed, and no byte more", async () => {
  const fits = await begun(CHUNKED);
  fits.socket.write(`${chunk("abc")}${chunk("de")}0\r\n\r\n`);
  expect(await receiveBody(fits.request, 5, ignore)).toHaveLength(5);
  const exceeds = await begun(CHUNKED);
  exceeds.socket.write(`${chunk("abc")}${chunk("def")}0\r\n\r\n`);
  await expect(receiveBody(exceeds.request, 5, ignore)).rejects.toMatchObject({ code: "request_too_large" });
});

test("refuses an oversized announced length without waiting", async () => {
  const { request } = await begun("content-length: 6");
  await expect(receiveBody(request, 5, ignore)).rejects.toMatchObject({ code: "request_too_large" });
});

test("passes on the refusal of a part, and leaves the connection to the reply", async () => {
  const { request, socket } = await begun(CHUNKED);
  const refusal = new Error("no");
  const body = receiveBody(request, 100, () => {
    throw refusal;
  });
  socket.write(chunk("abc"));
  await expect(body).rejects.toBe(refusal);
  expect(request.destroyed).toBe(false);
});

test("fails when the sender leaves in the middle", async () => {
  const { request, socket } = await begun("content-length: 5");
  const body = receiveBody(request, 100, () => socket.destroy());
  socket.write("abc");
  await expect(body).rejects.toMatchObject({ code: "ECONNRESET" });
});

test("fails when the sender has left before", async () => {
  const { request, socket } = await begun("content-length: 5");
  // No error listener may be required, because there is none between two hooks.
  const closed = new Promise((resolve) => request.on("close", resolve));
  socket.destroy();
  await closed;
  await expect(receiveBody(request, 100, ignore)).rejects.toMatchObject({
    detail: "downstream_remote_disconnect",
  });
});

test("takes no more of a long body that is refused", async () => {
  const { request, socket } = await begun("content-length: 10000000");
  const refusal = new Error("no");
  let taken = 0;
  const body = receiveBody(request, 10_000_000, (part) => {
    taken += part.length;
    if (taken > 1_000_000) throw refusal;
  });
  socket.write(Buffer.alloc(9_000_000));
  await expect(body).rejects.toBe(refusal);
  const before = taken;
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  expect(taken).toBe(before);
});
