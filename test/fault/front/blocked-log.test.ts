import { expect, test } from "vitest";
import { Fleet } from "../../support/processes/fleet.ts";

/** A line of the log has some 400 bytes; a pipe takes 64 KiB. */
const REQUESTS = 1_000;
const fleet = new Fleet();

test.each(["stalls", "is closed"])("requests continue when the reader of the log %s", async (how) => {
  const gateway = await fleet.gateway({ endpoints: [] });
  const { stdout, stderr } = gateway.process.child;
  if (how === "stalls") stderr?.pause();
  else for (const output of [stdout, stderr]) output?.destroy();
  const statuses = new Set<number>();
  for (let sent = 0; sent < REQUESTS; sent += 10)
    for (const response of await Promise.all(Array.from({ length: 10 }, () => gateway.models("none")))) {
      statuses.add(response.status);
      await response.arrayBuffer();
    }
  expect([...statuses]).toEqual([401]);
  // A stalled reader has to resume before the process can end.
  stderr?.resume();
  gateway.process.signal("SIGTERM");
  expect(await gateway.process.ended).toBe(0);
});
