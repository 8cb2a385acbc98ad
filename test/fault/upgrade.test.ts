import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { auditFileOf } from "../../gateway/keys/audit-log.ts";
import { becomes } from "../support/becomes.ts";
import { brokenEnd } from "../support/http/answer-check.ts";
import { EarlierRelease, NO_EARLIER_RELEASE } from "../support/processes/earlier-release.ts";
import { Fleet, healthy } from "../support/processes/fleet.ts";
import { createKey, keyCommand } from "../support/processes/key-command.ts";
import { endsOf, openStreams } from "../support/processes/open-streams.ts";

/*
 * Programs and files of the previous release beside those of this one, as during an upgrade and a rollback
 * (deploy/docs/upgrade.md).
 */

const fleet = new Fleet();

/** Answers of some seconds, so that a node is lost during them. */
const SLOW = { tokensPerSecond: 20, answerTokens: { min: 60, max: 60 } };

/** Two of each format. */
const STREAMS = 6;

type Whose = "earlier" | "present";

const skipped = NO_EARLIER_RELEASE && ` (${NO_EARLIER_RELEASE})`;

describe.skipIf(NO_EARLIER_RELEASE !== "")(`together with the previous release${skipped}`, () => {
  let release: EarlierRelease;

  beforeAll(() => {
    release = EarlierRelease.build();
  });
  afterAll(() => release?.remove());

  const of = (whose: Whose) => (whose === "earlier" ? release : undefined);

  test.each<readonly [gateway: Whose, lost: Whose, stays: Whose]>([
    // The fleet during an upgrade of the nodes, and during a rollback.
    ["present", "earlier", "present"],
    ["earlier", "present", "earlier"],
  ])(
    "the %s gateway loses nothing but the answers of a lost %s node; its other one is %s",
    async (whose, first, second) => {
      const [lost, stays] = await Promise.all([
        fleet.engine("lost", SLOW, undefined, { release: of(first) }),
        fleet.engine("stays", SLOW, undefined, { release: of(second) }),
      ]);
      const endpoints = [lost, stays].map(({ address }) => ({ address }));
      const gateway = await fleet.gateway({ endpoints, lbPolicy: "round_robin" }, {}, [], of(whose));
      for (const { address } of endpoints) await healthy(gateway, address);

      const begun = await openStreams(gateway, STREAMS);
      await lost.kill();
      const disturbed = await endsOf(begun);
      const afterwards = await endsOf(await openStreams(gateway, STREAMS));
      expect(afterwards.filter(({ end }) => end !== "complete")).toEqual([]);

      const broken = disturbed.filter(({ end }) => end !== "complete");
      expect(broken.length).toBeGreaterThan(0);
      expect(broken.length).toBeLessThan(disturbed.length);
      // Nodes of both releases answer the same.
      for (const [at, { path, end, text }] of disturbed.entries()) {
        const whole = afterwards[at]?.text ?? "";
        expect(whole.startsWith(text)).toBe(true);
        expect(text === whole).toBe(end === "complete");
        if (end !== "complete") expect(end).toBe(whose === "earlier" ? "error" : brokenEnd(path));
      }
    },
  );

  test("its keys are valid here, and its audit log ends when it is moved away", async () => {
    const folder = mkdtempSync(join(tmpdir(), "svc-upgrade-"));
    fleet.onEnd(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "keys.json");
    const earlier = release.createKey(file);
    release.keyCommand(file, "set-limits", earlier.split("_")[2] ?? "", "--rpm", "7");
    const gateway = await fleet.gateway({ endpoints: [] }, { keys: { file } });
    expect((await gateway.models(earlier)).status).toBe(200);
    await expect(createKey(file)).rejects.toThrow("an earlier release wrote it, without signatures: move it away");
    renameSync(auditFileOf(file), join(folder, "earlier.jsonl"));
    const present = await createKey(file, "--name", "present", "--models", "all");
    await becomes(async () => (await gateway.models(present)).status === 200, "the new key is known");
    await keyCommand(file, "revoke", earlier.split("_")[2] ?? "");
    await becomes(async () => (await gateway.models(earlier)).status === 401, "the revocation is known");
    expect(await keyCommand(file, "audit", "verify")).toContain("is as it was written: 2 lines");
    expect(JSON.parse(await keyCommand(file, "list", "--json"))).toHaveLength(2);
  });
});
