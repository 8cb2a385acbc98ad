import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Sealing } from "../../../../../gateway/sealing/sealing.ts";
import { parseSealingKeys } from "../../../../../gateway/sealing/sealing-key.ts";
import { runKeys } from "../../../../support/processes/key-command.ts";

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-sealing-cli-"));
  path = join(folder, "sealing-key");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

async function keys(...argv: readonly string[]) {
  const { code, out, err } = await runKeys(["--json", "sealing-key", ...argv]);
  return { code, ids: out === "" ? [] : (JSON.parse(out) as string[]), err };
}

const onDisk = async () => parseSealingKeys(await readFile(path));

test("a file is created once, with one key, readable by its owner only", async () => {
  const made = await keys("create", path);
  expect(made).toMatchObject({ code: 0, ids: [expect.stringMatching(/^[0-9a-f]{8}$/)] });
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect((await keys("list", path)).ids).toEqual(made.ids);
  const before = await readFile(path);
  expect(await keys("create", path)).toMatchObject({ code: 2, err: expect.stringContaining("is there already") });
  expect(await readFile(path)).toEqual(before);
});

test("a rotated file seals with a new key and still opens texts of the previous one", async () => {
  const [first] = (await keys("create", path)).ids;
  const scope = { tenant: "t", model: "svc-qwen", format: "messages" };
  const sealed = new Sealing(await onDisk()).for(scope).seal("deep");
  const [second, ...kept] = (await keys("rotate", path)).ids;
  expect(kept).toEqual([first]);
  expect(new Sealing(await onDisk()).for(scope).open(sealed)).toBe("deep");
  const [third, ...others] = (await keys("rotate", path)).ids;
  expect(others).toEqual([second]);
  expect((await keys("rotate", path, "--keep", "2")).ids.slice(1)).toEqual([third, second]);
  expect((await keys("rotate", path, "--keep", "0")).ids).toHaveLength(1);
});

test("a file of bare bytes becomes one of lines when it is rotated", async () => {
  const bytes = Buffer.concat([randomBytes(31), Buffer.of(0)]);
  await writeFile(path, bytes, { mode: 0o600 });
  const [only] = (await keys("list", path)).ids;
  expect((await keys("rotate", path)).ids[1]).toBe(only);
  expect((await onDisk())[1]?.secret).toEqual(bytes);
});

test.each([
  ["is missing", undefined, "is not there"],
  ["is wrong", "nothing", "not hex digits"],
])("a file that %s ends with code 4", async (_what, text, reason) => {
  if (text !== undefined) await writeFile(path, text, { mode: 0o600 });
  expect(await keys("list", path)).toMatchObject({ code: 4, err: expect.stringContaining(reason) });
  expect((await keys("rotate", path)).code).toBe(4);
});

test.each(["-1", "16", "x"])("%s keys that stay is a usage error", async (keep) => {
  await keys("create", path);
  expect((await keys("rotate", path, `--keep=${keep}`)).code).toBe(2);
});
