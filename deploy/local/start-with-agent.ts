import { openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Child, ChildFailed, startProcess } from "./child.ts";
import { findProgram, runAgent } from "./launch/agent-run.ts";
import { findAgent } from "./launch/launch.ts";
import { findModelAccess } from "./launch/model-access.ts";
import type { LocalOptions } from "./options.ts";
import { stateFolder } from "./state.ts";

const LOG = "start.log";

/**
 * Runs the start with the options `argv` in a process of its own that no Ctrl-C reaches, and the agent of `options` on this terminal;
 * stops the start behind it. Resolves to the exit code of the agent. Throws `LaunchError`, and `ChildFailed` if the start
 * ended before it was ready.
 */
export async function startWithAgent(options: LocalOptions, argv: readonly string[]): Promise<number> {
  const agent = findAgent(String(options.agent));
  const program = findProgram(agent);
  const { stateDir } = options;
  const file = join(await stateFolder(stateDir), LOG);
  console.error(`starting the service; its log is ${join(stateDir, LOG)}`);
  const end = argv.includes("--") ? argv.indexOf("--") : argv.length;
  const own = [...argv.slice(0, end), "--agents", "--no-agent"];
  const service = new Child("the service", startProcess(String(process.argv[1]), own, openSync(file, "w", 0o600)));
  let stopped = false;
  const stop = () => {
    stopped = true;
    service.signal("SIGTERM");
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, stop);
  try {
    const { baseUrl, keyFile } = await service.ready;
    for (const signal of signals) process.off(signal, stop);
    const key = readFileSync(String(keyFile), "utf8").trim();
    const access = await findModelAccess({ url: String(baseUrl), key, stateDir });
    return await runAgent(agent, access, program, options.agentArgs);
  } catch (error) {
    if (stopped) return 0;
    if (error instanceof ChildFailed) process.stderr.write(readFileSync(file));
    throw error;
  } finally {
    stop();
    await service.ended;
  }
}
