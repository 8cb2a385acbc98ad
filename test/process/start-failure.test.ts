import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, test } from "vitest";
import { startFailure } from "../../deploy/runtime/process/start-failure.ts";

async function failureToListen(host: string, port: number): Promise<unknown> {
  const server = createServer();
  const failed = once(server, "error");
  server.listen(port, host);
  return (await failed)[0];
}

test("a port that is taken is one line with the address", async () => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const { port } = holder.address() as AddressInfo;
  expect(startFailure(await failureToListen("127.0.0.1", port), false)).toBe(`the address 127.0.0.1:${port} is in use`);
  holder.close();
});

test("an address of another machine is one line with the system's word", async () => {
  const error = await failureToListen("192.0.2.1", 50_051);
  expect(startFailure(error, false)).toBe("the address 192.0.2.1:50051 cannot be listened on (EADDRNOTAVAIL)");
});

test("what tells enough is its message, all else has its stack", () => {
  const error = new RangeError("no such thing");
  expect(startFailure(error, true)).toBe("no such thing");
  expect(startFailure(error, false)).toContain("start-failure.test.ts");
  expect(startFailure("a text", false)).toBe("a text");
});
