import { setTimeout as passed } from "node:timers/promises";
import { expect, test } from "vitest";
import { closedLoop, tallyOf } from "../support/processes/closed-loop.ts";
import { Fleet, healthy, nothingOpen, SHORT, show, size } from "../support/processes/fleet.ts";
import { attack } from "../support/processes/hostile-caller.ts";

/* One key that tries to block the service, beside ordinary callers. */

const ATTACK_MS = size(8_000, 300_000);
const HONEST = size(6, 20);
const HOSTILITY = {
  schemas: size(8, 16),
  bodies: size(4, 30),
  bodyBytes: size(8_000_000, 33_000_000),
  prompts: size(2, 6),
  promptMessages: size(5_000, 30_000),
  connections: size(200, 1_000),
  leavers: size(4, 16),
};

const fleet = new Fleet();

test("a hostile key fails neither other keys' answers nor nodes", async () => {
  const nodes = await fleet.engines(3, SHORT);
  const gateway = await fleet.inFrontOf(nodes);
  const keys = await Promise.all(
    Array.from({ length: HONEST }, (_, index) => gateway.createKey("--models", "all", "--name", `honest ${index}`)),
  );
  const over = new AbortController();
  const load = closedLoop(gateway, HONEST, { keys, pauseMs: 100 });
  const attacked = attack({ port: gateway.port, key: gateway.key }, HOSTILITY, 1, over.signal);
  await passed(ATTACK_MS);
  over.abort();
  const ended = await load.finish(load.ended.length);
  const tally = await attacked;
  const ejections = await gateway.stat("svc_cluster_outlier_ejections_total", 'enforced="true"');
  show("a hostile key", { honest: HONEST, ...tallyOf(ended), ejections, hostile: tally });
  expect(tallyOf(ended)).toEqual({ complete: ended.length });
  expect(ejections).toBe(0);
  for (const { address } of nodes) await healthy(gateway, address);
  await nothingOpen(gateway, nodes);
});
