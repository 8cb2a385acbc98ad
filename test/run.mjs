// Runs a set of lanes of the tests (test/vitest.config.ts) and, with the quick ones, the checks.
//   node test/run.mjs quick [args of vitest]   types, lint, freshness of generated files, and the lanes of `npm test`
//   node test/run.mjs rest [args of vitest]    all other lanes
//   node test/run.mjs newest [args of vitest]  the newest majors of SDKs; test/newest-sdks/run installs them first
//   node test/run.mjs engines [args of vitest] real engines; test/engines/run installs them first
//   node test/run.mjs kubernetes [args of vitest] a real API server; test/kubernetes/run builds it first
//   node test/run.mjs shipped [args of vitest] tests that use Node's sockets; test/on-node sets another version
//
// Checks report to standard error, a failed one with all its output; standard output is vitest's and ends with its
// summary. The exit code is 1 if anything fails.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const LANES = {
  quick: ["unit", "golden", "contract", "integration", "process"],
  rest: ["exhaustive", "other-wire", "model", "browser", "deploy", "start", "fault"],
  newest: ["newest-sdks"],
  engines: ["engines"],
  kubernetes: ["kubernetes"],
  shipped: ["integration"],
};
/** The npm scripts of checks, by their names. */
const CHECKS = Object.keys(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).scripts).filter((name) =>
  name.startsWith("check:"),
);

/** The time limit for vitest to close its workers after all tests have ended, in milliseconds. */
const CLOSING_MS = 60_000;

const [set, ...more] = process.argv.slice(2);
if (!Object.hasOwn(LANES, set ?? "")) {
  process.stderr.write("usage: node test/run.mjs quick|rest|newest|engines|kubernetes|shipped [args of vitest]\n");
  process.exit(2);
}

/** Running programs. Each leads a process group, so that a signal reaches its children, too. */
const running = new Set();

function start(command, args, stdio) {
  const child = spawn(command, args, { cwd: ROOT, stdio, detached: true });
  running.add(child);
  const ended = new Promise((resolve) => {
    child.on("error", (error) => resolve(String(error)));
    child.on("close", (code, signal) => resolve(signal ?? code));
  }).finally(() => running.delete(child));
  return { child, ended };
}

/** Runs an npm script; prints that it passed, or all of its output. Resolves to whether it passed. */
async function check(script) {
  const began = Date.now();
  const { child, ended } = start("npm", ["run", "--silent", script], ["ignore", "pipe", "pipe"]);
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => output.push(chunk));
  const end = await ended;
  const took = `${((Date.now() - began) / 1000).toFixed(1)} s`;
  if (end === 0) process.stderr.write(`${script} passed in ${took}\n`);
  else process.stderr.write(`${Buffer.concat(output)}\n${script} FAILED (${end}) after ${took}\n`);
  return end === 0;
}

async function tests() {
  const lanes = LANES[set].map((name) => `--project=${name}`);
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  // Files of the slow lanes wait for processes, health checks and drains for a fifth of their time, those with sockets
  // for half of it. Engines take all processors themselves.
  const workers = { rest: availableParallelism() + 1, shipped: 2 * availableParallelism(), engines: 1 }[set];
  const most = workers === undefined ? [] : [`--maxWorkers=${workers}`];
  const args = [vitest, "run", "--config", "test/vitest.config.ts", ...lanes, ...most, ...more];
  const { child, ended } = start(process.execPath, args, ["ignore", "inherit", "inherit", "ipc"]);
  let reported;
  child.once("message", (passed) => {
    const closing = setTimeout(() => {
      reported = passed;
      process.stderr.write(`vitest has not ended ${CLOSING_MS / 1000} s after the tests\n`);
      process.kill(-child.pid, "SIGKILL");
    }, CLOSING_MS);
    void ended.then(() => clearTimeout(closing));
  });
  const end = await ended;
  const passed = reported ?? end === 0;
  if (!passed) process.stderr.write(`the tests FAILED (${end})\n`);
  return passed;
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
  process.on(signal, () => {
    for (const { pid } of running) {
      try {
        process.kill(-pid, signal);
      } catch {
        // It has ended meanwhile.
      }
    }
    process.exitCode = 130;
  });

const passed = await Promise.all([tests(), ...(set === "quick" ? CHECKS.map(check) : [])]);
if (passed.includes(false)) process.exitCode ||= 1;
