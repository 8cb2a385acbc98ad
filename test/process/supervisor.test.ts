import { spawn } from "node:child_process";
import { afterEach, expect, test } from "vitest";
import { Child, ChildFailed } from "../../deploy/local/child.ts";
import { Supervisor } from "../../deploy/local/supervisor.ts";
import { until } from "../support/until.ts";

/* With real processes, of a line of code each. */

const READY = 'process.stdout.write("ready {}\\n");';
const STAYS = "setInterval(() => {}, 1000);";

const supervisors: Supervisor[] = [];
afterEach(async () => {
  for (const supervisor of supervisors.splice(0)) {
    const stopped = supervisor.stop();
    supervisor.hurry();
    await stopped;
  }
});

function setUp() {
  const said: string[] = [];
  const supervisor = new Supervisor((text) => said.push(text));
  supervisors.push(supervisor);
  let starts = 0;
  const program = (name: string, ...codes: readonly string[]) => ({
    name,
    start() {
      const code = codes[Math.min(starts++, codes.length - 1)] ?? "";
      return new Child(name, spawn(process.execPath, ["-e", code], { stdio: ["ignore", "pipe", "inherit"] }));
    },
  });
  return { said, supervisor, program, starts: () => starts };
}

test("a process that ends before it is ready fails the start, with its exit code", async () => {
  const { supervisor, program } = setUp();
  const failure = await supervisor.start([program("gateway 1", "process.exit(3)")]).catch((error) => error);
  expect(failure).toBeInstanceOf(ChildFailed);
  expect([failure.exitCode, failure.message]).toEqual([3, "the gateway 1 did not start (exit code 3)"]);
});

test("one that was ready is restarted, even when a restart failed meanwhile", async () => {
  const { said, supervisor, program, starts } = setUp();
  await supervisor.start([program("engine 1", READY, "process.exit(7)", `${READY}${STAYS}`)]);
  await until(() => starts() === 3, "it is started for the third time");
  expect(said).toEqual([
    "the engine 1 ended (exit code 0); starting it again in 0.5 s",
    "the engine 1 did not start (exit code 7); starting it again in 1 s",
  ]);
});

test("stopping restarts nothing, and hurrying ends slow processes", async () => {
  const { said, supervisor, program, starts } = setUp();
  const second = 'let n = 0; process.on("SIGTERM", () => { n += 1; if (n === 2) process.exit(0); });';
  await supervisor.start([program("gateway 1", `${second}${STAYS}${READY}`)]);
  const stopped = supervisor.stop();
  let done = false;
  void stopped.then(() => {
    done = true;
  });
  while (!done) {
    supervisor.hurry();
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect([starts(), said]).toEqual([1, []]);
});
