import { type Child, ChildFailed, endOf, type Ready } from "./child.ts";
import { RestartDelay } from "./restart-delay.ts";

/** Milliseconds between two stop signals: longer than the time within which two signals count as one. */
const ASK_AGAIN_MS = 600;

/** A supervised program. */
export type Program = {
  /** Name of the program in messages: `engine 1`, `gateway`. */
  readonly name: string;
  /** Starts a process of the program. */
  start(): Promise<Child> | Child;
};

/** One program of a group, with its current process. */
type Member = { readonly program: Program; readonly delay: RestartDelay; child?: Child };

/**
 * Keeps processes running. A process that was ready and exits is restarted, whatever its exit code: the operator
 * decides their number, and an exit by the admin listener is a restart. Groups are stopped in reverse order of their
 * start, so that a gateway can finish its answers before its engines exit.
 */
export class Supervisor {
  readonly #groups: (readonly Member[])[] = [];
  readonly #say: (text: string) => void;
  #stopping = false;

  /** `say` receives one line for every restarted process. */
  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  /**
   * Starts a group of programs. Resolves to the `ready` fields of its processes; rejects with `ChildFailed` if one
   * ended before.
   */
  async start(programs: readonly Program[]): Promise<readonly Ready[]> {
    const group = programs.map((program): Member => ({ program, delay: new RestartDelay() }));
    this.#groups.unshift(group);
    return Promise.all(group.map((member) => this.#run(member)));
  }

  /** Stops all processes, group by group, and resolves when they have exited. None is restarted. */
  async stop(): Promise<void> {
    this.#stopping = true;
    for (const group of this.#groups) {
      for (const { child } of group) child?.signal("SIGTERM");
      await Promise.all(group.map(({ child }) => child?.ended));
    }
  }

  /**
   * Sends stop signals repeatedly until all processes have exited, so that running work is ended. A second signal is
   * not enough, because a busy process may receive the first two at the same time and count them as one.
   */
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
    const child = await member.program.start();
    member.child = child;
    if (this.#stopping) child.signal("SIGTERM");
    const ready = await child.ready;
    const readyAtMs = performance.now();
    void child.ended.then((how) => this.#restart(member, `ended (${endOf(how)})`, performance.now() - readyAtMs));
    return ready;
  }

  #restart(member: Member, what: string, readyForMs: number): void {
    if (this.#stopping) return;
    const delayMs = member.delay.next(readyForMs);
    this.#say(`the ${member.program.name} ${what}; starting it again in ${delayMs / 1000} s`);
    setTimeout(() => {
      if (this.#stopping) return;
      this.#run(member).catch((error: unknown) => this.#restart(member, failureOf(error), 0));
    }, delayMs);
  }
}

function failureOf(error: unknown): string {
  const how = error instanceof ChildFailed ? endOf(error.how) : error instanceof Error ? error.message : String(error);
  return `did not start (${how})`;
}
