import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { projectFolder } from "../../../deploy/runtime/files/project-folder.ts";
import { IMAGE_ENV } from "./image-env.ts";

const ROOT = projectFolder();

export class FleetProcess {
  readonly child: ChildProcess;
  /** Parsed log lines; a line that is no JSON is under `text`. */
  readonly log: Readonly<Record<string, unknown>>[] = [];
  /** Resolves to the exit code of the process, null after a fatal signal. */
  readonly ended: Promise<number | null>;
  readonly #folder: string;

  private constructor(child: ChildProcess, folder: string) {
    this.child = child;
    this.#folder = folder;
    this.ended = once(child, "close").then(([code]) => code);
    if (child.stderr)
      createInterface({ input: child.stderr }).on("line", (line) => {
        this.log.push(line.startsWith("{") ? JSON.parse(line) : { text: line });
      });
  }

  /** Starts a program below `dist/`, or of another release. `through` is a command prefix that runs it by exec. */
  static async start<Ready>(
    program: string,
    config: object,
    through: readonly string[] = [],
  ): Promise<{ process: FleetProcess; ready: Ready }> {
    const folder = mkdtempSync(join(tmpdir(), "svc-fleet-"));
    const file = join(folder, "config.yaml");
    writeFileSync(file, JSON.stringify(config));
    const main = resolve(ROOT, "dist", program);
    const [command, ...args] = [...through, process.execPath, main, "--config", file];
    const env = { ...IMAGE_ENV, ...process.env };
    const child = spawn(command ?? process.execPath, args, { stdio: ["ignore", "pipe", "pipe"], env });
    const started = new FleetProcess(child, folder);
    const ready = await new Promise<Ready>((isReady, reject) => {
      createInterface({ input: child.stdout }).on("line", (line) => {
        if (line.startsWith("ready ")) isReady(JSON.parse(line.slice(6)));
      });
      void started.ended.then((code) => reject(new Error(`${program} ended with ${code}: ${started.#lastWords()}`)));
    });
    return { process: started, ready };
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  async end(): Promise<void> {
    if (this.running) this.child.kill("SIGKILL");
    await this.ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #lastWords(): string {
    return this.log.map((line) => JSON.stringify(line)).join("\n");
  }
}

export async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "close");
}
