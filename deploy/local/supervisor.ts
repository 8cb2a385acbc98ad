import { type Child, ChildFailed, endOf, type Ready } from "./child.ts";
import { RestartDelay } from "./restart-delay.ts";

/** The milliseconds between two orders to end at once: longer than the time within which two orders count as one. */
const ASK_AGAIN_MS = 600;

/** A program that the supervisor keeps running. */
export type Program = {
  /** The name of the program in messages: `engine 1`, `gateway`. */
  readonly name: string;
  /** Starts a process of the program. */
  start(): Promise<Child> | Child;
};

/** One program of a group, with the process that runs it now. */
type Member = { readonly program: Program; readonly delay: RestartDelay; child?: Child };

/**
 * Keeps processes running. One that had been ready and ends is started again, whatever its exit code: how many there
 * are is the operator's word, and ending one by its admin listener renews it. Stopping goes group by group, the group
 * started last first, so that a gateway can finish its answers before its engines go.
 */
export class Supervisor {
  readonly #groups: (readonly Member[])[] = [];
  readonly #say: (text: string) => void;
  #stopping = false;

  /** Makes a supervisor without processes. `say` takes one line for every process that is started again. */
  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  /**
   * Starts a group of programs; the group started last is stopped first. Resolves to what its processes said when
   * ready; rejects with `ChildFailed` when one ended before.
   */
  async start(programs: readonly Program[]): Promise<readonly Ready[]> {
    const group = programs.map((program): Member => ({ program, delay: new RestartDelay() }));
    this.#groups.unshift(group);
    return Promise.all(group.map((member) => this.#run(member)));
  }

  /** Asks all processes to end, group by group, and resolves when they have. None is started again. */
  async stop(): Promise<void> {
    this.#stopping = true;
    for (const group of this.#groups) {
      for (const { child } of group) child?.signal("SIGTERM");
      await Promise.all(group.map(({ child }) => child?.ended));
    }
  }

  /**
   * Asks all processes again and again until they have ended, so that what still runs is cut. Once more is not enough,
   * as a busy process may hear the first two orders at one time and take them for one.
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
