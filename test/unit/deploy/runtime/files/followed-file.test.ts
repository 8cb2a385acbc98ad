import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { FollowedFile } from "../../../../../deploy/runtime/files/followed-file.ts";
import { systemClock } from "../../../../../deploy/runtime/time/clock.ts";
import { latch } from "../../../../support/latch.ts";
import { until } from "../../../../support/until.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-followed-"));
  file = join(folder, "followed");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

function follow(
  take: () => Promise<"taken" | "again">,
  more: { clock?: VirtualClock; files?: [string, ...string[]] } = {},
) {
  const { clock = systemClock, files = [file] } = more;
  const followed = new FollowedFile({ files, clock, take });
  onTestFinished(() => followed.close());
  return followed;
}

/** Atomically, so that it is one change. */
async function replace(path: string, text: string): Promise<void> {
  const next = join(folder, "next");
  await writeFile(next, text);
  await rename(next, path);
}

function counted(answer: "taken" | "again" = "taken") {
  const take = async () => {
    take.calls += 1;
    return answer;
  };
  take.calls = 0;
  return take;
}

describe("a followed file", () => {
  test("a followed file is taken at the first look, and again only when something changed", async () => {
    await writeFile(file, "one");
    const take = counted();
    // The virtual clock never polls.
    const followed = follow(take, { clock: new VirtualClock() });
    await followed.look();
    await followed.look();
    expect(take.calls).toBe(1);
    await replace(file, "two");
    await until(() => take.calls === 2, "the replacement is seen by itself");
    await rm(file);
    await until(() => take.calls === 3, "its end is seen by itself");
  });

  test("a followed file is found by looking where its folder comes later", async () => {
    const clock = new VirtualClock();
    const later = join(folder, "later");
    const take = counted();
    const followed = follow(take, { clock, files: [join(later, "followed")] });
    await followed.look();
    await mkdir(later);
    await replace(join(later, "followed"), "there");
    const tick = () => clock.advance(500);
    await until(() => {
      void tick();
      return take.calls === 2;
    }, "the file is taken");
  });

  test("a followed file is never read twice at a time, and changes meanwhile are read afterwards", async () => {
    await writeFile(file, "one");
    const { passed, open } = latch();
    let running = 0;
    let most = 0;
    let calls = 0;
    const followed = follow(
      async () => {
        calls += 1;
        running += 1;
        most = Math.max(most, running);
        await passed;
        running -= 1;
        return "taken";
      },
      { clock: new VirtualClock() },
    );
    const first = followed.look();
    await until(() => calls === 1, "the first take");
    await replace(file, "a longer text");
    const second = followed.look();
    open();
    await Promise.all([first, second]);
    expect([calls, most]).toEqual([2, 1]);
  });
});

test("a hanging read is abandoned and repeated, and its late result is not used", async () => {
  await writeFile(file, "one");
  const clock = new VirtualClock();
  const hanging = [latch(), latch()];
  const signals: AbortSignal[] = [];
  let hung = 0;
  const followed = new FollowedFile({
    files: [file],
    clock,
    async take(signal) {
      signals.push(signal);
      await hanging[signals.length - 1]?.passed;
      return "taken";
    },
    onHang: () => {
      hung += 1;
    },
  });
  onTestFinished(() => followed.close());
  for (const tries of [1, 2]) {
    await clock.advance(500);
    await until(() => signals.length === tries, "the file is being read");
    await clock.advance(15_000);
    await until(() => hung === tries, "the look is given up");
    expect(signals[tries - 1]?.aborted).toBe(true);
  }
  // Each of the two hanging reads occupies a thread: no third one is started.
  await clock.advance(15_000);
  await followed.look();
  expect(signals.length).toBe(2);
  hanging[0]?.open();
  await new Promise((resolve) => setImmediate(resolve));
  await followed.look();
  expect(signals.length).toBe(3);
  expect([hung, signals.map(({ aborted }) => aborted).slice(0, 2)]).toEqual([2, [true, true]]);
});

test("a read is not abandoned while its file is parsed", async () => {
  await writeFile(file, "one");
  const clock = new VirtualClock();
  const [read, parsed] = [latch(), latch()];
  let hung = 0;
  const followed = new FollowedFile({
    files: [file],
    clock,
    async take(_signal, onRead) {
      onRead();
      read.open();
      await parsed.passed;
      return "taken";
    },
    onHang: () => {
      hung += 1;
    },
  });
  onTestFinished(() => followed.close());
  const looked = followed.look();
  await read.passed;
  await clock.advance(60_000);
  parsed.open();
  await looked;
  expect(hung).toBe(0);
});
