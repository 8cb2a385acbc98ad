import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { AuditEntry } from "../../../gateway/keys/audit-log.ts";
import { becomes } from "../../support/becomes.ts";
import { Fleet, show } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { Forwarder } from "../../support/redis/forwarder.ts";
import { HAS_REDIS, NO_REDIS, OPERATOR, RedisProcess, SERVERS } from "../../support/redis/redis-process.ts";
import { sharedKeys } from "../../support/redis/shared-keys.ts";
import { SHIPPED_USER } from "../../support/redis/shipped-store.ts";

/* Keys of four gateways in a shipped store that loses a change. */

const fleet = new Fleet();
const GATEWAYS = 4;
const PASSWORD = "b3BlbnNlc2FtZS9vcGVu+A==";
/** Milliseconds within which a revocation must take effect everywhere after a fail-over. */
const PROMISED_MS = 2_000;
/** Tolerance factor for a busy machine. */
const PATIENCE = 10;

type Status = { readonly stale: boolean };

/** Four gateways without nodes, whose keys are in a store with a replica, and the command line. */
async function setUp() {
  const [server = ""] = SERVERS;
  const master = await RedisProcess.shipped(server, PASSWORD, { operator: true });
  fleet.onEnd(() => master.end());
  const login = ["--masteruser", OPERATOR, "--masterauth", PASSWORD];
  const args = ["--replicaof", "127.0.0.1", String(master.port), ...login];
  await master.ask("CONFIG", "SET", "repl-diskless-sync-delay", "0");
  const replica = await RedisProcess.shipped(server, PASSWORD, { operator: true, args });
  fleet.onEnd(() => replica.end());
  const forwarder = await Forwarder.to(master.port);
  fleet.onEnd(() => forwarder.end());
  const url = `redis://${SHIPPED_USER}:${PASSWORD}@${forwarder.address}`;
  const shared = sharedKeys(url);
  fleet.onEnd(shared.remove);
  // The host of an operator, on which no gateway runs.
  const operator = sharedKeys(url);
  fleet.onEnd(operator.remove);
  const { config, keys, create } = shared;
  const made = [await create(), await create(), await create()];
  copyFileSync(join(shared.folder, "pepper"), join(operator.folder, "pepper"));
  const caughtUp = async () => {
    const offset = /master_repl_offset:\d+/.exec(String(await master.ask("INFO", "replication")))?.[0] ?? "none";
    return String(await replica.ask("INFO", "replication")).includes(offset);
  };
  await becomes(caughtUp, "the replica has caught up");
  const cluster = { endpoints: [{ address: "127.0.0.1:1" }] };
  const gateways = await Promise.all(Array.from({ length: GATEWAYS }, () => fleet.gateway(cluster, config)));
  const start = () => fleet.gateway(cluster, config);
  return { master, replica, forwarder, keys, operator: operator.keys, made, gateways, start };
}

const idOf = (key: string | undefined) => key?.split("_")[2] ?? "";

async function statusOf(gateway: GatewayProcess): Promise<Status> {
  return (await (await fetch(`${gateway.adminUrl}/keys/status`)).json()) as Status;
}

/** Resolves to the milliseconds until every gateway answered the key with this status. */
async function answerAfterMs(gateways: readonly GatewayProcess[], key: string | undefined, status: number) {
  const beganMs = performance.now();
  const answers = async (gateway: GatewayProcess) => (await gateway.models(key)).status === status;
  await Promise.all(gateways.map((gateway) => becomes(() => answers(gateway), `${status} for the key`)));
  return Math.round(performance.now() - beganMs);
}

/** Resolves to the current statuses of the key at the gateways. */
function answers(gateways: readonly GatewayProcess[], key: string | undefined) {
  return Promise.all(gateways.map(async (gateway) => (await gateway.models(key)).status));
}

const everywhere = (status: number) => Array.from({ length: GATEWAYS }, () => status);

describe.skipIf(!HAS_REDIS)(`keys in a store that loses changes${HAS_REDIS ? "" : ` (${NO_REDIS})`}`, () => {
  test("keys in a store that loses changes after a fail-over that lost a revocation it counts all the time, gateways put it back, and the next one counts at all of them", async () => {
    const { master, replica, forwarder, keys, operator, made, gateways, start } = await setUp();
    const [lost, later, other] = made;
    await replica.ask("REPLICAOF", "NO", "ONE");
    expect((await operator("revoke", idOf(lost))).code).toBe(0);
    await answerAfterMs(gateways, lost, 401);
    await master.stop("SIGKILL");
    forwarder.turnTo(replica.port);
    const revoked = await keys("revoke", idOf(later));
    expect(revoked.code).toBe(0);
    const tookMs = await answerAfterMs(gateways, later, 401);
    show("a revocation after a fail-over counts everywhere after, in ms", { tookMs });
    expect(tookMs).toBeLessThan(PROMISED_MS * PATIENCE);
    expect(await answers(gateways, lost)).toEqual(everywhere(401));
    await becomes(async () => (await operator("doctor")).code === 0, "the doctor finds nothing on another host");
    expect((await keys("doctor")).code).toBe(0);
    for (const gateway of gateways) {
      await becomes(async () => (await gateway.stat("svc_keystore_went_back_total")) === 1, "it is counted");
      expect((await statusOf(gateway)).stale).toBe(false);
      expect(await gateway.stat("svc_keystore_stale")).toBe(0);
    }
    const started = await start();
    for (const [key, status] of [
      [lost, 401],
      [later, 401],
      [other, 200],
    ] as const)
      expect(await answers([...gateways, started], key)).toEqual([...everywhere(status), status]);
    expect((await operator("audit", "verify")).code).toBe(0);
    const lines: AuditEntry[] = JSON.parse((await operator("audit", "--json")).out);
    const before = ["create", "create", "create"];
    expect(lines.map(({ action }) => action).toSorted()).toEqual([...before, "put-back", "revoke", "revoke"]);
  });
});
