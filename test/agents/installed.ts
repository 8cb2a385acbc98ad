import { spawn } from "node:child_process";
import { hash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { settingsFiles } from "../../deploy/local/launch/agent-run.ts";
import { type Agent, type ModelAccess, taskArgs } from "../../deploy/local/launch/agents.ts";
import { projectFolder } from "../../deploy/runtime/files/project-folder.ts";
import { processesWith } from "../support/processes/processes-with.ts";
import { TASK } from "./task.ts";

/**
 * `first`: a key and an address only; `own instructions`: as on the page, with the instructions of the agent's vendor;
 * `launch`: by `svc launch`, in a home whose settings lead elsewhere.
 */
export type SettingsKind = "page" | "first" | "own instructions" | "launch";

/** `touched`: changed paths of the home, and what `svc launch` left. */
export type AgentRun = {
  readonly code: number | null;
  readonly output: string;
  readonly touched: readonly string[];
};

type Command = { readonly program: string; readonly args: readonly string[]; readonly env: NodeJS.ProcessEnv };

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
  async run(agent: Agent, place: ModelAccess, home: string, settings: SettingsKind): Promise<AgentRun> {
    const launched = settings === "launch";
    const temporary = mkdtempSync(join(tmpdir(), "svc-tmp-"));
    const { program, args, env } = launched ? launchCommand(agent, place) : await command(agent, place, home, settings);
    if (launched) await ownSettings(agent, place, home);
    const before = sumsOf(home);
    const path = [this.#bin(agent), join(this.#folder, "npm/node24/node_modules/.bin"), "/usr/local/bin:/usr/bin:/bin"];
    const child = spawn(program, args, {
      cwd: join(home, "work"),
      env: { HOME: home, TMPDIR: temporary, TERM: "dumb", LANG: "C.UTF-8", CI: "1", PATH: path.join(":"), ...env },
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
    const touched = launched
      ? touchedIn(before, sumsOf(home), [...readdirSync(temporary), ...readdirSync("/var/tmp")])
      : [];
    rmSync(temporary, { recursive: true, force: true });
    if (process.env.SVC_AGENTS_KEEP) writeFileSync(join(home, "output.txt"), output);
    return { code, output, touched };
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

async function writeFiles(files: Readonly<Record<string, string>>, place: ModelAccess, home: string): Promise<void> {
  for (const [file, text] of Object.entries(await settingsFiles(files, place, home))) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
}

/** Writes the settings of the page. */
async function command(agent: Agent, place: ModelAccess, home: string, settings: SettingsKind): Promise<Command> {
  const { program, firstTry, files, ownInstructions } = agent;
  if (settings === "first") {
    const args = firstTry?.args?.(TASK, place) ?? taskArgs(agent, TASK, place);
    return { program, args, env: firstTry?.env(place) ?? {} };
  }
  await writeFiles((settings === "page" ? files : ownInstructions)?.(place) ?? {}, place, home);
  const args = taskArgs(agent, TASK, place).map((arg) => arg.replace(/^~\//, `${home}/`));
  return { program, args, env: agent.env?.(place) ?? {} };
}

function launchCommand(agent: Agent, { baseUrl, key, model, smallModel }: ModelAccess): Command {
  const at = ["--url", baseUrl, "--model", model, "--small-model", smallModel];
  const args = [join(projectFolder(), "deploy/svc.mjs"), "launch", agent.program, ...at, "--"];
  const place = { baseUrl, key, model, smallModel, contextTokens: 0 };
  return { program: process.execPath, args: [...args, ...agent.task(TASK, place)], env: { SVC_API_KEY: key } };
}

/** Writes settings of the user that lead to another service. */
async function ownSettings(agent: Agent, { baseUrl, key }: ModelAccess, home: string): Promise<void> {
  const files = agent.files?.({ baseUrl, key, model: "another", smallModel: "another", contextTokens: 100_000 }) ?? {};
  const written = await settingsFiles(files, { baseUrl, key, model: "", smallModel: "", contextTokens: 0 }, home);
  for (const [file, text] of Object.entries(written)) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text.replaceAll(baseUrl, "http://127.0.0.1:9").replaceAll(key, "another-key"));
  }
}

/** Returns a sum of each file of a home folder, and "" for a folder; its folder `work` is left out. */
function sumsOf(home: string): ReadonlyMap<string, string> {
  const entries = readdirSync(home, { recursive: true, withFileTypes: true });
  const paths = entries.map((entry) => [relative(home, join(entry.parentPath, entry.name)), entry.isFile()] as const);
  const sums = paths.filter(([path]) => path.split("/")[0] !== "work");
  return new Map(sums.map(([path, isFile]) => [path, isFile ? hash("sha256", readFileSync(join(home, path))) : ""]));
}

function touchedIn(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
  temporary: readonly string[],
): readonly string[] {
  const all = new Set([...before.keys(), ...after.keys()]);
  return [
    ...[...all].filter((path) => before.get(path) !== after.get(path)),
    ...temporary.filter((name) => name.startsWith("svc-launch-")),
  ];
}
