import { type Child, ChildFailed, endOf, type Ready } from "./child.ts";

/** Milliseconds between two stop signals: longer than the time within which two signals count as one. */
const ASK_AGAIN_MS = 600;

export type Program = {
  /** Name of the program in messages: `engine 1`, `gateway`. */
  readonly name: string;
  start(): Promise<Child> | Child;
};

type Member = { readonly program: Program; readonly delay: RestartDelay; child?: Child };

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
    const group = programs.map((program): Member => ({ program, delay: new RestartDelay() }));
    this.#groups.unshift(group);
    return Promise.all(group.map((member) => this.#run(member)));
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

const FIRST_MS = 500;
const LONGEST_MS = 30_000;
/** Ready time, in milliseconds, after which the delay is reset. */
const STEADY_MS = 60_000;

export class RestartDelay {
  #ends = 0;

  /** Returns the milliseconds to wait after an exit of a process that was ready for `readyForMs`. */
  next(readyForMs: number): number {
    this.#ends = readyForMs >= STEADY_MS ? 1 : this.#ends + 1;
    return Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(this.#ends - 1, 10));
  }
}
