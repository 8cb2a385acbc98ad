import { execFileSync } from "node:child_process";
import { closeSync, constants, existsSync, mkdtempSync, openSync, readFileSync, readSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { errnoOf } from "../../deploy/runtime/files/private-file.ts";
import { lineWriter } from "../../deploy/runtime/log/process-log.ts";
import { becomes } from "../support/becomes.ts";

const folder = mkdtempSync(join(tmpdir(), "svc-lines-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The largest atomic write, PIPE_BUF. */
const WRITE_BYTES = 4_096;
/** Lines of some 400 bytes, like those of the log, with characters of several bytes. */
const linesOf = (count: number) => Array.from({ length: count }, (_, at) => `${at} ${"é".repeat(200)}\n`);

function writerTo(fd: number, maxWaiting = 1 << 20) {
  const lost = { count: 0 };
  const writer = lineWriter({ fd, maxWaiting, onDrop: () => lost.count++ });
  return { writer, lost };
}

test("a file receives all lines whole and in their order, also one that is longer than one write", async () => {
  const file = join(folder, "log");
  const fd = openSync(file, "a");
  const { writer, lost } = writerTo(fd);
  const lines = [...linesOf(1_000), `${"a".repeat(100_000)}\n`, "after\n"];
  for (const line of lines) writer.write(line);
  await becomes(async () => readFileSync(file, "utf8") === lines.join(""), "all is written");
  expect(lost.count).toBe(0);
  closeSync(fd);
});

test("waiting lines are written before the process ends", async () => {
  const file = join(folder, "rest");
  const fd = openSync(file, "a");
  const { writer } = writerTo(fd);
  const lines = linesOf(50);
  for (const line of lines) writer.write(line);
  writer.writeRest(1_000);
  const written = () => readFileSync(file, "utf8").split(/(?<=\n)/);
  // The lines of the first write are already on their way, and may arrive at any time.
  const first = lines.slice(0, Math.floor(WRITE_BYTES / Buffer.byteLength(lines[0] ?? "")));
  expect(written().filter((line) => !first.includes(line))).toEqual(lines.slice(first.length));
  await becomes(async () => first.every((line) => written().includes(line)), "the first write has arrived");
  closeSync(fd);
});

/** Lines written while writes fail are counted as lost, and the end of the process does not wait for them. */
async function expectLost(fd: number): Promise<void> {
  const { writer, lost } = writerTo(fd);
  let written = 0;
  const writeOne = async () => {
    writer.write(`${written++} ${"a".repeat(400)}\n`);
    return lost.count > 0;
  };
  await becomes(writeOne, "a line is lost");
  const before = lost.count;
  for (const line of linesOf(30)) writer.write(line);
  expect(lost.count).toBe(before + 30);
  writer.writeRest(60_000);
}

test("lines are counted while a file cannot be written", async () => {
  const file = join(folder, "read-only");
  closeSync(openSync(file, "w"));
  const fd = openSync(file, "r");
  await expectLost(fd);
  closeSync(fd);
});

test.skipIf(!existsSync("/dev/full"))("lines are written again once a full disk has room", async () => {
  const full = openSync("/dev/full", "w");
  await expectLost(full);
  const file = join(folder, "roomy");
  const { writer, lost } = writerTo(full);
  await becomes(async () => {
    writer.write("lost\n");
    return lost.count > 0;
  }, "a line is lost");
  closeSync(full);
  // The lowest free descriptor is reused: the same one now accepts writes.
  expect(openSync(file, "w")).toBe(full);
  await becomes(async () => {
    writer.write("kept\n");
    return readFileSync(file, "utf8").includes("kept\n");
  }, "lines are written");
  closeSync(full);
});

/** A pipe whose ends never block: EAGAIN when full, and EPIPE without a reader. */
function pipe(name: string) {
  const path = join(folder, name);
  execFileSync("mkfifo", [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return { reader, fd: openSync(path, constants.O_WRONLY | constants.O_NONBLOCK) };
}

function readAll(reader: number): string {
  const pieces: Buffer[] = [];
  const piece = Buffer.alloc(1 << 16);
  try {
    for (let size = readSync(reader, piece); size > 0; size = readSync(reader, piece))
      pieces.push(Buffer.from(piece.subarray(0, size)));
  } catch (error) {
    expect(errnoOf(error)).toBe("EAGAIN");
  }
  return Buffer.concat(pieces).toString();
}

test("for a stalled reader the lines that do not fit are lost, and the rest arrives whole later", async () => {
  const { reader, fd } = pipe("stalled");
  const { writer, lost } = writerTo(fd, 100_000);
  const lines = linesOf(1_000);
  for (const line of lines) writer.write(line);
  await becomes(async () => lost.count > 0, "some find no room");
  let read = "";
  await becomes(async () => {
    read += readAll(reader);
    return read.split("\n").length === lines.length - lost.count + 1;
  }, "all others are read");
  expect(lines).toEqual(expect.arrayContaining(read.split(/(?<=\n)/)));
  closeSync(reader);
  closeSync(fd);
});

test("the end of a process waits for a stalled reader no longer than its limit", async () => {
  const { reader, fd } = pipe("end");
  const { writer } = writerTo(fd);
  for (const line of linesOf(1_000)) writer.write(line);
  const startMs = performance.now();
  writer.writeRest(200);
  expect(performance.now() - startMs).toBeGreaterThanOrEqual(200);
  closeSync(reader);
  writer.writeRest(60_000);
  closeSync(fd);
});

test("lines to a pipe without a reader are counted", async () => {
  const { reader, fd } = pipe("gone");
  closeSync(reader);
  await expectLost(fd);
  closeSync(fd);
});
