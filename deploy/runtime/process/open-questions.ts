import type { Clock } from "../time/clock.ts";

/** The time after which the process at the other end counts as silent, in milliseconds: on one machine it is stuck then. */
const ANSWER_MS = 1_000;

/** The questions that one end of a process channel has asked the other, and that are not answered yet. */
export class OpenQuestions<Answer> {
  readonly #clock: Pick<Clock, "after">;
  readonly #unanswered = new Map<number, (answer: Answer) => void>();
  readonly #late = new Map<number, (answer: Answer) => void>();
  #lastId = 0;

  /** Begins without questions; `clock` times the other end's answers. */
  constructor(clock: Pick<Clock, "after">) {
    this.#clock = clock;
  }

  /** The number of questions that have no answer, those included that are only waited for by who takes late ones. */
  get open(): number {
    return this.#unanswered.size + this.#late.size;
  }

  /**
   * Has `send` put a question under an id that no other one has. Resolves to what `answer` is called with for this id;
   * undefined where there is no answer within a second. One that comes later goes to `late`, or is dropped without it.
   */
  ask(send: (id: number) => void, late?: (answer: Answer) => void): Promise<Answer | undefined> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ANSWER_MS, () => {
        this.#unanswered.delete(id);
        if (late) this.#late.set(id, late);
        resolve(undefined);
      });
      this.#unanswered.set(id, (answer) => {
        cancel();
        resolve(answer);
      });
      send(id);
    });
  }

  /** Takes the answer to a question. */
  answer(id: number, answer: Answer): void {
    for (const questions of [this.#unanswered, this.#late]) {
      const take = questions.get(id);
      questions.delete(id);
      take?.(answer);
    }
  }
}
