import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { writePrivateFile } from "../../../../deploy/runtime/files/private-file.ts";
import { systemClock } from "../../../../deploy/runtime/time/clock.ts";
import { FollowedSealing } from "../../../../gateway/sealing/followed-sealing.ts";
import { newSealingKey, type SealingKeys, sealingKeysText } from "../../../../gateway/sealing/sealing-key.ts";
import { until } from "../../../support/until.ts";

let folder: string;
let file: string;
const open: FollowedSealing[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-sealing-"));
  file = join(folder, "sealing-key");
});

afterEach(async () => {
  for (const one of open.splice(0)) one.close();
  await rm(folder, { recursive: true, force: true });
});

const write = (keys: SealingKeys) => writePrivateFile(file, sealingKeysText(keys));
const idsOf = (keys: SealingKeys) => keys.map(({ id }) => id).join();

async function follow(faults: (string | undefined)[] = []): Promise<FollowedSealing> {
  const onReload = (fault: string | undefined) => faults.push(fault);
  const followed = await FollowedSealing.open({ file, clock: systemClock, onReload, onUnknownKey() {} });
  open.push(followed);
  return followed;
}

describe("a file of sealing keys that changes", () => {
  test("is in force without a restart, and keeps the last good keys while it is wrong", async () => {
    const [one, two] = [newSealingKey(), newSealingKey()];
    await write([one]);
    const faults: (string | undefined)[] = [];
    const { sealing } = await follow(faults);
    expect(sealing.keyIds.join()).toBe(one.id);
    await write([two, one]);
    await until(() => sealing.keyIds.join() === idsOf([two, one]), "the new key seals");
    await writePrivateFile(file, "nothing\n");
    await until(() => faults.length === 2, "the fault is told");
    expect(faults).toEqual([undefined, expect.stringContaining("not hex digits")]);
    expect(sealing.keyIds.join()).toBe(idsOf([two, one]));
    await write([two]);
    await until(() => sealing.keyIds.join() === two.id, "the mended file is taken");
    expect(faults.at(-1)).toBeUndefined();
  });

  test("that others can read is not taken, at the start and later", async () => {
    const key = newSealingKey();
    await writeFile(file, sealingKeysText([key]), { mode: 0o644 });
    await expect(follow()).rejects.toThrow("its mode should be 0600");
    await chmod(file, 0o600);
    const faults: (string | undefined)[] = [];
    const { sealing } = await follow(faults);
    await chmod(file, 0o644);
    await until(() => faults.length === 1, "the fault is told");
    expect(sealing.keyIds.join()).toBe(key.id);
  });

  test("has to be there", async () => {
    await expect(follow()).rejects.toThrow(`${file} is not there`);
  });
});
