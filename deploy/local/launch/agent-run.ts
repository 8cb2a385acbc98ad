import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { homedir, constants as system, tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { projectFolder } from "../../runtime/files/project-folder.ts";
import { onAbort } from "../../runtime/time/abort.ts";
import type { Agent, ModelAccess } from "./agents.ts";
import { EXIT, get, LaunchError } from "./model-access.ts";

/** The name of an agent's folder begins with it. */
const FOLDER = "svc-launch-";

type Texts = Readonly<Record<string, string>>;

/** Returns a text of the table for the home folder `home`. */
const inHome = (text: string, home: string): string => text.replaceAll("~/", `${home}/`);

/** Resolves to the texts of `files` by their paths, for the home folder `home`: those that the service has are fetched. */
export async function settingsFiles(files: Texts, access: ModelAccess, home: string): Promise<Texts> {
  const entries = Object.entries(files).map(async ([path, text]) => {
    const whole = text.startsWith("/") ? await (await get(`${access.baseUrl}${text}`, access.key)).text() : text;
    return [join(home, path), inHome(whole, home)] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

/** Returns the path of an agent's program. Throws `LaunchError` if it is not installed. */
export function findProgram({ name, program, registry, package: id }: Agent): string {
  const folders = (userEnv().PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  const found = folders.map((folder) => join(folder, program)).find(isProgram);
  if (found !== undefined) return found;
  const install = registry === "npm" ? `npm install --global ${id}` : `pip install ${id}`;
  throw new LaunchError(EXIT.notInstalled, `${name} is not in PATH: ${install}, or name its program by --program`);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Returns the variables of the user: npm adds its own, and folders of programs, for the scripts that it runs. */
function userEnv(): NodeJS.ProcessEnv {
  const { npm_lifecycle_event: ofNpm, INIT_CWD: _, ...env } = process.env;
  if (ofNpm === undefined) return process.env;
  const kept = Object.entries(env).filter(([name]) => !name.startsWith("npm_"));
  const isOfNpm = (folder: string) => {
    const [, above] = /^(.+)\/node_modules\/\.bin$/.exec(folder) ?? [];
    return folder.endsWith("node-gyp-bin") || (above !== undefined && `${projectFolder()}/`.startsWith(`${above}/`));
  };
  const path = env.PATH?.split(delimiter).filter((folder) => !isOfNpm(folder));
  return { ...Object.fromEntries(kept), ...(path && { PATH: path.join(delimiter) }) };
}

/**
 * Runs an agent on this terminal, in the user's folder, with settings in a folder of its own that is removed behind it.
 * Resolves to its exit code, which for an end by a signal is 128 and the signal's number, as in a shell.
 */
export async function runAgent(
  agent: Agent,
  access: ModelAccess,
  program: string,
  args: readonly string[],
): Promise<number> {
  const order = new AbortController();
  const stop = (signal: NodeJS.Signals) => order.abort(signal);
  // The terminal sends Ctrl-C to the agent as well.
  const stay = () => {};
  process.on("SIGINT", stay).on("SIGQUIT", stay).on("SIGTERM", stop).on("SIGHUP", stop);
  const home = await newFolder();
  try {
    const files = await settingsFiles({ ...agent.files?.(access), ...agent.ownFiles?.(access) }, access, home);
    const folders = await ownFolders(agent.folders, home);
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text, { mode: 0o600 });
    }
    // npm runs scripts in the folder of the package.
    const cwd = (process.env.npm_lifecycle_event && process.env.INIT_CWD) || process.cwd();
    const env: NodeJS.ProcessEnv = { ...userEnv(), PWD: cwd, ...agent.ownEnv, ...agent.env?.(access), ...folders };
    const always = (agent.always?.(access) ?? []).map((arg) => inHome(arg, home));
    return await processEnd(spawn(program, [...always, ...args], { cwd, env, stdio: "inherit" }), order.signal);
  } finally {
    // A daemon that begins while its agent ends makes the folder anew.
    for (const delayMs of [0, 300]) {
      await setTimeout(delayMs);
      await endDaemons(home, agent.program);
      await rm(home, { recursive: true, force: true, maxRetries: 5 });
    }
    process.off("SIGINT", stay).off("SIGQUIT", stay).off("SIGTERM", stop).off("SIGHUP", stop);
  }
}

/** Makes a folder outside of the one for temporary files, where sandboxes of agents let each command write. */
async function newFolder(): Promise<string> {
  return mkdtemp(join("/var/tmp", FOLDER)).catch(() => mkdtemp(join(tmpdir(), FOLDER)));
}

/** Makes the folders of an agent below `home`; resolves to their paths, by their variables. */
async function ownFolders(moved: Agent["folders"], home: string): Promise<Texts> {
  const paths: Record<string, string> = {};
  for (const [name, folder] of Object.entries(moved)) {
    const path = join(home, typeof folder === "string" ? folder : folder.shared);
    await mkdir(path, { recursive: true });
    paths[name] = path;
  }
  for (const [name, path] of Object.entries(paths)) {
    const folder = moved[name];
    if (typeof folder === "object")
      await linkOthers(process.env[name] || join(homedir(), folder.shared), path, folder.own);
  }
  return paths;
}

/** Gives other programs their entries of a shared folder: all but `own`, and those that are in `folder` already. */
async function linkOthers(theirs: string, folder: string, own: string): Promise<void> {
  const kept = new Set([own, ...(await readdir(folder))]);
  const entries = await readdir(theirs).catch((): string[] => []);
  for (const entry of entries.filter((each) => !kept.has(each)))
    await symlink(join(theirs, entry), join(folder, entry));
}

/**
 * Ends the daemons that an agent left behind, such as that of Cline, on Linux: processes of its program that have its
 * folder in their variables. A server that it started for its user lives on.
 */
async function endDaemons(home: string, program: string): Promise<void> {
  const ids = (await readdir("/proc").catch((): string[] => [])).filter((name) => /^\d+$/.test(name));
  const textOf = (id: string, file: string) => readFile(join("/proc", id, file), "utf8").catch(() => "");
  for (const id of ids) {
    const words = (await textOf(id, "cmdline")).split("\0");
    if (!words.some((word) => basename(word) === program) || !(await textOf(id, "environ")).includes(home)) continue;
    try {
      process.kill(Number(id), "SIGKILL");
    } catch {
      // It has ended meanwhile.
    }
  }
}

/** Milliseconds that an agent has to end behind a stop signal. */
const END_MS = 5_000;

/** Resolves to the exit code of an agent, which is sent the signal that `stop` is aborted with. */
async function processEnd(child: ChildProcess, stop: AbortSignal): Promise<number> {
  onAbort(stop, () => {
    child.kill(stop.reason);
    void setTimeout(END_MS, undefined, { ref: false }).then(() => child.kill("SIGKILL"));
  });
  return new Promise((resolve, reject) => {
    child.on("error", (cause) => {
      const message = `${child.spawnfile} cannot be run: name the agent's program by --program`;
      reject(new LaunchError(EXIT.notInstalled, message, { cause }));
    });
    child.on("exit", (code, signal) => resolve(code ?? 128 + (signal ? system.signals[signal] : 0)));
  });
}
