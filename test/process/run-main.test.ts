import { once } from "node:events";
import { url } from "node:inspector";
import { type AddressInfo, createServer } from "node:net";
import { CommanderError } from "commander";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ConfigError } from "../../deploy/runtime/config/load-config.ts";
import { runMain } from "../../deploy/runtime/process/run-main.ts";

const said: string[] = [];
const { write } = process.stderr;
beforeEach(() => {
  said.length = 0;
  process.stderr.write = (text: string | Uint8Array) => said.push(String(text)) > 0;
});
afterEach(() => {
  process.stderr.write = write;
});

async function ended(error: unknown, exitCodeOf: (error: unknown) => number | undefined = () => undefined) {
  const exitCode = await runMain({ name: "program", exitCodeOf, run: () => Promise.reject(error) });
  return { exitCode, said: said.join("") };
}

async function failureToListen(host: string, port: number): Promise<unknown> {
  const server = createServer();
  const failed = once(server, "error");
  server.listen(port, host);
  return (await failed)[0];
}

test("a program ends with the exit code of its work, without output", async () => {
  expect(await runMain({ name: "program", run: async () => 3 })).toBe(3);
  expect(said).toEqual([]);
});

test("a program opens no debugger for the signal that makes Node open one", async () => {
  process.removeAllListeners("SIGUSR1");
  const run = async () => {
    // Without another listener, Node opens its debugger.
    expect(process.listenerCount("SIGUSR1")).toBe(1);
    process.kill(process.pid, "SIGUSR1");
    return 0;
  };
  expect(await runMain({ name: "program", run })).toBe(0);
  await once(process, "SIGUSR1");
  expect(url()).toBeUndefined();
});

test("a port in use is one line with the address", async () => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const { port } = holder.address() as AddressInfo;
  expect(await ended(await failureToListen("127.0.0.1", port))).toEqual({
    exitCode: 1,
    said: `program: the address 127.0.0.1:${port} is in use\n`,
  });
  holder.close();
});

test("an address of another machine is one line with the system's error", async () => {
  const { said } = await ended(await failureToListen("192.0.2.1", 50_051));
  expect(said).toBe("program: the address 192.0.2.1:50051 cannot be listened on (EADDRNOTAVAIL)\n");
});

test("a wrong configuration is its message, the page of refused starts and exit code 2", async () => {
  const error = new ConfigError("a.yaml: listen: is wrong");
  const page = 'see "When a start is refused" in deploy/docs/run-as-a-service.md';
  expect(await ended(error)).toEqual({
    exitCode: 2,
    said: `program: a.yaml: listen: is wrong\nprogram: ${page}\n`,
  });
});

test("a known error of the program is its message and its own exit code", async () => {
  const error = new RangeError("no such thing");
  expect(await ended(error, () => 7)).toEqual({ exitCode: 7, said: "program: no such thing\n" });
});

test("any other error has its stack and exit code 1", async () => {
  const { exitCode, said } = await ended(new RangeError("no such thing"));
  expect(exitCode).toBe(1);
  expect(said).toContain("run-main.test.ts");
  expect(await ended("a text")).toMatchObject({ exitCode: 1, said: expect.stringMatching(/program: a text\n$/) });
});

test("for an error that commander has already printed only the exit code remains", async () => {
  expect(await ended(new CommanderError(1, "commander.unknownOption", "unknown"))).toEqual({ exitCode: 2, said: "" });
  expect(await ended(new CommanderError(0, "commander.helpDisplayed", ""))).toEqual({ exitCode: 0, said: "" });
});
