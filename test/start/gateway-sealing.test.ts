import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { FleetProcess } from "../support/processes/fleet-process.ts";
import { createKey, keyCommand } from "../support/processes/key-command.ts";

/* The sealing keys of a running gateway. */

let folder: string;
let file: string;
let sealingKeyFile: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-gateway-sealing-"));
  file = join(folder, "keys.json");
  sealingKeyFile = join(folder, "sealing-key");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const sealingKey = async (...args: readonly string[]): Promise<string[]> =>
  JSON.parse(await keyCommand(file, "sealing-key", "--json", ...args));

test("sealing keys are followed and shown by id, and a missing one is counted and logged once", async () => {
  const key = await createKey(file, "--name", "ci", "--models", "all");
  const [first] = await sealingKey("create", sealingKeyFile);
  const { process: gateway, ready } = await FleetProcess.start<{ baseUrl: string; adminUrl: string }>(
    "gateway/main.js",
    {
      listen: { port: 0 },
      admin: { port: 0 },
      keys: { file },
      sealingKeyFile,
      clusters: [
        { model: "svc-qwen", endpoints: [{ address: "127.0.0.1:1" }], circuitBreakers: { noEndpointHoldMs: 0 } },
      ],
    },
  );
  try {
    const shown = async (): Promise<{ readonly key_ids: readonly string[] }> => {
      const info = await (await fetch(`${ready.adminUrl}/server_info`)).json();
      return (info as { readonly sealing: { readonly key_ids: readonly string[] } }).sealing;
    };
    expect(await shown()).toEqual({ key_ids: [first], ends_with_process: false });
    const [second, ...others] = await sealingKey("rotate", sealingKeyFile);
    expect(others).toEqual([first]);
    await becomes(async () => (await shown()).key_ids.join() === `${second},${first}`, "the new key seals");

    // Sealed by another gateway: the version, the id of its key, and bytes that only that key opens.
    const signature = Buffer.concat([Buffer.of(2), Buffer.from("0badcafe", "hex"), randomBytes(60)]).toString("base64");
    const assistant = { role: "assistant", content: [{ type: "thinking", thinking: "", signature }] };
    const asked = { role: "user", content: "Why?" };
    const body = JSON.stringify({ model: "svc-qwen", max_tokens: 9, messages: [asked, assistant, asked] });
    for (let i = 0; i < 3; i += 1) {
      const headers = { "x-api-key": key, "content-type": "application/json" };
      const response = await fetch(`${ready.baseUrl}/v1/messages`, { method: "POST", headers, body });
      // No endpoint is up: the sealed item adds no error of its own.
      expect(response.status).toBe(529);
    }
    const stats = await (await fetch(`${ready.adminUrl}/stats`)).text();
    expect(stats).toContain('svc_sealed_texts_total{result="unknown_key"} 3');
    expect(stats).toContain(`svc_sealing_keys{key_id="${second}",does="seals"} 1`);
    const said = () => gateway.log.filter(({ sealingKeyId }) => sealingKeyId !== undefined);
    // The log is written some milliseconds later.
    await becomes(async () => said().length > 0, "it is said");
    expect(said()).toEqual([expect.objectContaining({ sealingKeyId: "0badcafe", sealingKeyIds: [second, first] })]);
  } finally {
    await gateway.end();
  }
});
