import type { Clock } from "../time/clock.ts";

/** The time after which the process at the other end counts as silent, in milliseconds: on one machine it is stuck then. */
const ANSWER_MS = 1_000;

/** The questions that one end of a process channel has asked the other, and that are not answered yet. */
export class OpenQuestions<Answer> {
  readonly #clock: Pick<Clock, "after">;
  readonly #unanswered = new Map<number, (answer: Answer) => void>();
  #lastId = 0;

  /** Begins without questions; `clock` times the other end's answers. */
  constructor(clock: Pick<Clock, "after">) {
    this.#clock = clock;
  }

  /**
   * Has `send` put a question under an id that no other one has. Resolves to what `answer` is called with for this id;
   * undefined where there is no answer within a second.
   */
  ask(send: (id: number) => void): Promise<Answer | undefined> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ANSWER_MS, () => {
        this.#unanswered.delete(id);
        resolve(undefined);
      });
      this.#unanswered.set(id, (answer) => {
        cancel();
        resolve(answer);
      });
      send(id);
    });
  }

  /** Takes the answer to a question; one that comes too late is dropped. */
  answer(id: number, answer: Answer): void {
    this.#unanswered.get(id)?.(answer);
    this.#unanswered.delete(id);
  }
}
