export const DEFAULT_PHASES = 8;

export class Pacer {
  readonly #tickMs: number;
  readonly #groups: readonly Set<() => void>[];
  #joined = 0;
  #members = 0;
  #tick = 0;
  #dueMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(timesPerSecond: number, phases = DEFAULT_PHASES) {
    this.#groups = Array.from({ length: phases }, () => new Set<() => void>());
    this.#tickMs = 1000 / timesPerSecond / phases;
  }

  join(onTick: () => void): () => void {
    const group = this.#groups[this.#joined++ % this.#groups.length];
    group?.add(onTick);
    this.#members += 1;
    if (!this.#timer) {
      this.#dueMs = performance.now();
      this.#schedule();
    }
    return () => {
      if (!group?.delete(onTick)) return;
      this.#members -= 1;
      if (this.#members > 0) return;
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  }

  #schedule(): void {
    this.#dueMs += this.#tickMs;
    this.#timer = setTimeout(() => this.#run(), this.#dueMs - performance.now());
  }

  /** Timers have millisecond resolution, so a run catches up on all due ticks. */
  #run(): void {
    for (; this.#dueMs <= performance.now(); this.#dueMs += this.#tickMs)
      for (const onTick of this.#groups[this.#tick++ % this.#groups.length] ?? []) onTick();
    this.#dueMs -= this.#tickMs;
    if (this.#members > 0) this.#schedule();
  }
}

/** A stream's share of a pacer. A tick without a waiting stream is lost, as a busy engine's step is. */
export class Pace {
  readonly #leave: () => void;
  #due = false;
  #wake: (() => void) | undefined;

  constructor(pacer: Pacer) {
    this.#leave = pacer.join(() => {
      this.#due = true;
      this.#wake?.();
    });
  }

  async tick(): Promise<void> {
    if (!this.#due)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    this.#due = false;
  }

  end(): void {
    this.#leave();
    this.#due = true;
    this.#wake?.();
  }
}
