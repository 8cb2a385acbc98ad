import { Child, ChildFailed, endOf, type Ready, startProcess } from "./child.ts";

/** Milliseconds between two stop signals: longer than the time within which two signals count as one. */
const ASK_AGAIN_MS = 600;

/** Milliseconds between two lines about the progress of a start. */
const SILENT_MS = 1_000;

export type Program = {
  /** Name of the program in messages: `engine 1`, `gateway`. */
  readonly name: string;
  readonly file: string;
  /** Writes the configuration, at each start; resolves to its path. */
  config(): Promise<string>;
  onReady(ready: Ready, child: Child): void;
};

/** Ready time, in milliseconds, after which an exit does not count as another one in a row. */
const STEADY_MS = 60_000;

/** `ends` are the exits in a row. */
type Member = { readonly program: Program; ends: number; child?: Child };

/**
 * Restarts processes that were ready and exit, whatever their exit code: an exit by the admin listener is a restart.
 * Groups are stopped in reverse order of their start, so that a gateway finishes its answers before its engines exit.
 */
export class Supervisor {
  readonly #groups: (readonly Member[])[] = [];
  readonly #say: (text: string) => void;
  #stopping = false;

  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  /** Resolves to the `ready` fields of a group of programs; rejects with `ChildFailed` if one ended before. */
  async start(programs: readonly Program[]): Promise<readonly Ready[]> {
    const group = programs.map((program): Member => ({ program, ends: 0 }));
    this.#groups.unshift(group);
    return Promise.all(group.map((member) => this.#run(member)));
  }

  /** Kills a program by its name, as the system does where memory is short; it starts again. */
  kill(name: string): void {
    const member = this.#groups.flat().find(({ program }) => program.name === name);
    member?.child?.signal("SIGKILL");
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    for (const group of this.#groups) {
      for (const { child } of group) child?.signal("SIGTERM");
      await Promise.all(group.map(({ child }) => child?.ended));
    }
  }

  /** Sends stop signals until all processes have exited: a busy process may take the first two for one. */
  hurry(): void {
    const ask = () => {
      for (const { child } of this.#groups.flat()) child?.signal("SIGTERM");
    };
    ask();
    const again = setInterval(ask, ASK_AGAIN_MS);
    again.unref();
    void Promise.all(this.#groups.flat().map(({ child }) => child?.ended)).then(() => clearInterval(again));
  }

  async #run(member: Member): Promise<Ready> {
    const { name, file, config, onReady } = member.program;
    let saidMs = performance.now();
    const child = new Child(name, startProcess(file, ["--config", await config()]), (line) => {
      if (performance.now() - saidMs < SILENT_MS) return;
      saidMs = performance.now();
      this.#say(`${name}: ${line}`);
    });
    member.child = child;
    if (this.#stopping) child.signal("SIGTERM");
    const ready = await child.ready;
    onReady(ready, child);
    const readyAtMs = performance.now();
    void child.ended.then((how) => this.#restart(member, `ended (${endOf(how)})`, performance.now() - readyAtMs));
    return ready;
  }

  #restart(member: Member, what: string, readyForMs: number): void {
    if (this.#stopping) return;
    member.ends = readyForMs >= STEADY_MS ? 1 : member.ends + 1;
    const delayMs = restartDelayMs(member.ends);
    this.#say(`${member.program.name} ${what}; starting it again in ${delayMs / 1000} s`);
    setTimeout(() => {
      if (this.#stopping) return;
      this.#run(member).then(
        () => this.#say(`${member.program.name} is ready again`),
        (error: unknown) => this.#restart(member, failureOf(error), 0),
      );
    }, delayMs);
  }
}

function failureOf(error: unknown): string {
  const how = error instanceof ChildFailed ? endOf(error.how) : error instanceof Error ? error.message : String(error);
  return `did not start (${how})`;
}

/** The delay doubles while a process keeps exiting. */
const FIRST_MS = 500;
const LONGEST_MS = 30_000;

/** Returns the milliseconds to wait before a restart; `ends` are the exits in a row. */
export function restartDelayMs(ends: number): number {
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(ends - 1, 10));
}
