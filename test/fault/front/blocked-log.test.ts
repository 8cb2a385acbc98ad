import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createKey } from "../../support/processes/key-command.ts";

/* A gateway whose log is not read: the collector has stalled, or its end of the pipe is closed. */

const ROOT = join(import.meta.dirname, "../../..");
/** A line of the log has some 400 bytes; a pipe takes 64 KiB. */
const REQUESTS = 1_000;
const folder = mkdtempSync(join(tmpdir(), "svc-blocked-log-"));
const config = join(folder, "gateway.yaml");

beforeAll(async () => {
  const keys = { file: join(folder, "keys.json") };
  await createKey(keys.file);
  writeFileSync(
    config,
    JSON.stringify({ listen: { port: 0 }, admin: { port: 0 }, keys, clusters: [], drainGraceMs: 0 }),
  );
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each(["stalls", "is closed"])("requests continue when the reader of the log %s", async (how) => {
  const gateway = spawn(process.execPath, [join(ROOT, "dist/gateway/main.js"), "--config", config], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(gateway, "close");
  try {
    const [line] = await once(createInterface({ input: gateway.stdout }), "line");
    const { baseUrl } = JSON.parse(String(line).slice("ready ".length));
    if (how === "is closed") for (const output of [gateway.stdout, gateway.stderr]) output.destroy();
    const statuses = new Set<number>();
    for (let sent = 0; sent < REQUESTS; sent += 10)
      for (const response of await Promise.all(Array.from({ length: 10 }, () => fetch(`${baseUrl}/v1/models`)))) {
        statuses.add(response.status);
        await response.arrayBuffer();
      }
    expect([...statuses]).toEqual([401]);
    // A stalled reader has to resume before the process can end.
    gateway.stderr.resume();
    gateway.kill("SIGTERM");
    const [code] = await ended;
    expect(code).toBe(0);
  } finally {
    gateway.kill("SIGKILL");
  }
});
