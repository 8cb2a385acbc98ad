import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Agent, AgentPlace } from "../../deploy/local/agents.ts";
import { processesWith } from "../support/processes/processes-with.ts";
import { TASK } from "./task.ts";

/** `first`: a key and an address only; `own instructions`: as on the page, with the instructions of the agent's vendor. */
export type SettingsKind = "page" | "first" | "own instructions";

export type AgentRun = { readonly code: number | null; readonly output: string };

/** The longest run of an agent, in milliseconds. */
const LIMIT_MS = 180_000;

/** Agents that test/agents/run has installed, each below `npm/` or `py/` of a folder. */
export class Installed {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  versionOf(agent: Agent): string {
    try {
      if (agent.registry === "npm")
        return JSON.parse(readFileSync(join(this.#place(agent), "node_modules", agent.package, "package.json"), "utf8"))
          .version;
      const lib = join(this.#place(agent), "lib");
      const packages = readdirSync(lib).flatMap((python) => readdirSync(join(lib, python, "site-packages")));
      const prefix = `${agent.package.replaceAll("-", "_")}-`;
      return (
        packages
          .find((name) => name.startsWith(prefix))
          ?.slice(prefix.length)
          .replace(".dist-info", "") ?? "(unknown)"
      );
    } catch {
      return "(not installed)";
    }
  }

  /** Runs an agent in the folder `work` of `home`, which is its home. */
  async run(agent: Agent, place: AgentPlace, home: string, settings: SettingsKind): Promise<AgentRun> {
    const first = settings === "first";
    const files = settings === "own instructions" ? agent.ownInstructions : first ? undefined : agent.files;
    for (const [path, text] of Object.entries(files?.(place) ?? {})) {
      const file = join(home, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, (text.startsWith("/") ? await fetched(place, text) : text).replaceAll("~/", `${home}/`));
    }
    const env = {
      HOME: home,
      TERM: "dumb",
      LANG: "C.UTF-8",
      CI: "1",
      PATH: [this.#bin(agent), join(this.#folder, "npm/node24/node_modules/.bin"), "/usr/local/bin:/usr/bin:/bin"].join(
        ":",
      ),
      ...(first ? agent.firstTry?.env(place) : agent.env?.(place)),
    };
    const args = ((first && agent.firstTry?.args) || agent.args)(TASK, place).map((arg) =>
      arg.replace(/^~\//, `${home}/`),
    );
    const child = spawn(join(this.#bin(agent), agent.program), args, {
      cwd: join(home, "work"),
      env,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (piece) => {
        output += piece;
      });
    const limit = setTimeout(() => child.pid && process.kill(-child.pid, "SIGKILL"), LIMIT_MS);
    const code = await new Promise<number | null>((resolve, reject) => {
      child.on("error", reject);
      child.on("exit", resolve);
    });
    clearTimeout(limit);
    // Cline leaves a daemon behind, in a session of its own.
    for (const pid of [...(child.pid ? [-child.pid] : []), ...processesWith(home)]) endedAtOnce(pid);
    if (process.env.SVC_AGENTS_KEEP) writeFileSync(join(home, "output.txt"), output);
    return { code, output };
  }

  #place({ registry, package: name }: Agent): string {
    return join(this.#folder, registry === "npm" ? "npm" : "py", name.replaceAll("/", "+"));
  }

  #bin(agent: Agent): string {
    const bin = join(this.#place(agent), agent.registry === "npm" ? "node_modules/.bin" : "bin");
    if (!existsSync(join(bin, agent.program))) throw new Error(`${agent.package} is not installed`);
    return bin;
  }
}

/** `pid` is the negative id of a group, or the id of a process. */
function endedAtOnce(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended already.
  }
}

async function fetched({ baseUrl, key }: AgentPlace, path: string): Promise<string> {
  return (await fetch(`${baseUrl}${path}`, { headers: { authorization: `Bearer ${key}` } })).text();
}
