import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { becomes } from "../support/becomes.ts";
import { freePort } from "../support/free-port.ts";
import { bodyFor, hasDelta } from "../support/http/answer-check.ts";
import { readBody } from "../support/http/read-until.ts";
import { Fleet, HELD, letEnd } from "../support/processes/fleet.ts";
import type { GatewayProcess } from "../support/processes/gateway-process.ts";

/* The configurations of the page about other proxies, in those that Debian has. */

const PAGE = readFileSync(join(import.meta.dirname, "../../deploy/docs/proxies.md"), "utf8");
const MEGABYTES = 20;

type Proxy = { readonly name: string; readonly args: (file: string, folder: string) => readonly string[] };
const PROXIES: readonly Proxy[] = [
  { name: "nginx", args: (file, folder) => ["-p", folder, "-c", file, "-e", "stderr", "-g", "daemon off;"] },
  { name: "caddy", args: (file) => ["run", "--adapter", "caddyfile", "--config", file] },
  { name: "haproxy", args: (file) => ["-f", file] },
];
/** What nginx wants around the page's lines. */
const AROUND: Readonly<Record<string, (text: string) => string>> = {
  nginx: (text) => `pid nginx.pid;\nevents {}\nhttp {\naccess_log off;\n${text}\n}\n`,
  caddy: (text) => `{\nadmin off\n}\n${text}`,
};

const fleet = new Fleet();
const folder = mkdtempSync(join(tmpdir(), "svc-proxies-"));
afterAll(() => rmSync(folder, { recursive: true }));
/** Starts a proxy with the page's lines, on a free port, in front of one gateway. Resolves to the port. */
async function started({ name, args }: Proxy, { baseUrl }: GatewayProcess): Promise<number> {
  const language = name === "caddy" ? "caddyfile" : name;
  const [, block = ""] = new RegExp(`\`\`\`${language}\n([^]*?)\n\`\`\``).exec(PAGE) ?? [];
  const port = await freePort();
  const at = new URL(baseUrl).host;
  const text = block
    .replace(/^\s*server (?:b )?10\.0\.0\.2:8080.*$/m, "")
    .replace(" 10.0.0.2:8080", "")
    .replaceAll("10.0.0.1:8080", at)
    .replace(/:?8000/, (listen) => (listen.startsWith(":") && name !== "haproxy" ? `:${port}` : `127.0.0.1:${port}`));
  const file = join(folder, name);
  writeFileSync(file, `${(AROUND[name] ?? ((lines: string) => lines))(text)}\n`);
  const child = spawn(name, args(file, folder), { stdio: "ignore", env: { ...process.env, HOME: folder } });
  fleet.onEnd(async () => {
    child.kill();
    await once(child, "exit");
  });
  await becomes(
    async () => (await fetch(`http://127.0.0.1:${port}/health`).catch(() => undefined))?.ok === true,
    `${name} passes requests`,
  );
  return port;
}

describe.each(PROXIES)("$name", (proxy) => {
  const isThere = spawnSync(proxy.name, [proxy.name === "caddy" ? "version" : "-v"]).status === 0;

  test.skipIf(!isThere)(
    `passes streams at once, long bodies, refusals and WebSockets${isThere ? "" : " (it is not installed)"}`,
    async () => {
      const node = await fleet.engine("node", HELD);
      const gateway = await fleet.inFrontOf([node]);
      const port = await started(proxy, gateway);
      const headers = { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" };
      const post = (path: string, body: object) =>
        fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", headers, body: JSON.stringify(body) });

      // A stream that does not end shows its first words.
      const path = "/v1/messages";
      const stream = readBody(await post(path, bodyFor(path, "hello", { stream: true })));
      await stream.until((text) => hasDelta(path, text));
      letEnd([node]);
      expect((await stream.toEndOrCut()).cut).toBe(false);

      const long = {
        model: "svc-qwen",
        messages: [{ role: "user", content: "word ".repeat((MEGABYTES << 20) / 5) }],
      };
      const counted = await post("/v1/messages/count_tokens", long);
      expect([counted.status, await counted.json()]).toEqual([200, { input_tokens: expect.any(Number) }]);
      const wrong = await post("/v1/chat/completions", { model: "svc-none", messages: [] });
      expect([wrong.status, await wrong.json()]).toEqual([
        400,
        { error: expect.objectContaining({ code: "model_not_found" }) },
      ]);

      const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/responses`, { headers });
      await once(socket, "open");
      socket.close();
      await once(socket, "close");
    },
  );
});
