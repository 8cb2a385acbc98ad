import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { becomes } from "../becomes.ts";
import { freePort } from "../free-port.ts";
import { killed } from "../processes/fleet-process.ts";

const CONFIG_FILE = join(import.meta.dirname, "../../../deploy/monitoring/alertmanager.yaml");
/** Debian's name of the program, and its makers'. */
const BINARY = ["prometheus-alertmanager", "alertmanager"].find((name) => spawnSync(name, ["--version"]).status === 0);

export const HAS_ALERTMANAGER = BINARY !== undefined;
export const NO_ALERTMANAGER = "no Alertmanager: install prometheus-alertmanager";

type Call = {
  readonly alerts: readonly { readonly status: string; readonly labels: { readonly alertname: string } }[];
};

/** A webhook that notes the alerts it is called for, as `firing SvcEngineDown`, or refuses them. */
export async function startReceiver(refuses: () => boolean = () => false) {
  const called = new Set<string>();
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => {
      const { alerts } = JSON.parse(Buffer.concat(pieces).toString()) as Call;
      for (const { status, labels } of alerts) called.add(`${status} ${labels.alertname}`);
      response.writeHead(refuses() ? 503 : 200).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/calls`,
    called: called as ReadonlySet<string>,
    end: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/**
 * Starts Alertmanager with the shipped configuration for a receiver at `url`; only its waits are shorter, and with
 * `repeat` the time after which it calls again.
 */
export async function startAlertmanager(url: string, repeat?: string) {
  const folder = mkdtempSync(join(tmpdir(), "svc-alertmanager-"));
  const shipped = readFileSync(CONFIG_FILE, "utf8").replace("RECEIVER", url);
  const config =
    repeat === undefined ? shipped : shipped.replaceAll(/repeat_interval: \w+/g, `repeat_interval: ${repeat}`);
  writeFileSync(join(folder, "config.yaml"), config.replace(/group_(wait|interval): \w+/g, "group_$1: 1s"));
  const port = await freePort();
  const files = [`--config.file=${join(folder, "config.yaml")}`, `--storage.path=${join(folder, "data")}`];
  const own = [`--web.listen-address=127.0.0.1:${port}`, "--cluster.listen-address="];
  const child = spawn(BINARY ?? "", [...files, ...own], { stdio: "ignore" });
  await becomes(async () => {
    if (child.exitCode !== null) throw new Error(`alertmanager ended with ${child.exitCode}`);
    return (await fetch(`http://127.0.0.1:${port}/-/ready`).catch(() => undefined))?.ok === true;
  }, "Alertmanager is ready");
  return {
    address: `127.0.0.1:${port}`,
    async end(): Promise<void> {
      await killed(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
