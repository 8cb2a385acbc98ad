import { write, writeSync } from "node:fs";
import { errnoOf } from "../files/errno.ts";

/** The time, in milliseconds, until a file that takes nothing at the moment is tried again. */
const RETRY_MS = 100;
/**
 * The bytes of one write. A pipe takes so many at once or not at all (PIPE_BUF), so lines of several processes never
 * mix.
 */
const CHUNK_BYTES = 4_096;
/**
 * The longest time that a line waits for others to be written with it, in milliseconds. Each write costs a call of the
 * system, and a thread that is woken for it.
 */
const GATHER_MS = 10;

/** What a line writer writes to, and what it keeps. */
export type LineWriterOptions = {
  /** The descriptor of an open file, pipe or socket, which the writer does not close. */
  readonly fd: number;
  /** The most characters that wait while the file takes nothing; lines beyond them are dropped. */
  readonly maxWaiting: number;
  /** Called once for each line that is lost, because too much waits or because the file cannot be written. */
  readonly onDrop: () => void;
};

/** The part of some lines that one write has yet to write. */
type Chunk = { bytes: Buffer; readonly lines: number };

/**
 * Writes lines in their order, those of some milliseconds together, and never makes the caller wait. A line that cannot
 * be written is lost, and the next one is tried all the same: a pipe that nobody reads any more or a full disk costs
 * lines of the log, not the process.
 */
export class LineWriter {
  readonly #options: LineWriterOptions;
  /** The lines that no write has taken yet. */
  #lines: string[] = [];
  #waiting = 0;
  #chunk: Chunk | undefined;
  /** Whether the system is writing `#chunk` at the moment; otherwise a timer tries it again. */
  #isInFlight = false;
  /** Whether a write is due when the time of gathering is over. */
  #isDue = false;

  constructor(options: LineWriterOptions) {
    this.#options = options;
  }

  /** Takes one line, with its line break. */
  write(line: string): void {
    if (this.#waiting + line.length > this.#options.maxWaiting) {
      this.#options.onDrop();
      return;
    }
    this.#lines.push(line);
    this.#waiting += line.length;
    if (!this.#chunk) this.#writeSoon();
  }

  /**
   * Writes what waits before it returns, for a process that ends: it blocks for `limitMs` at most while the file says
   * that it takes nothing, and gives up where it cannot be written.
   */
  writeRest(limitMs: number): void {
    const endMs = performance.now() + limitMs;
    if (this.#isInFlight) this.#chunk = undefined;
    for (let chunk = this.#chunk ?? this.#takeChunk(); chunk; chunk = this.#takeChunk())
      while (chunk.bytes.length > 0)
        try {
          chunk.bytes = chunk.bytes.subarray(writeSync(this.#options.fd, chunk.bytes));
        } catch (error) {
          if (errnoOf(error) !== "EAGAIN" || performance.now() > endMs) return;
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
        }
  }

  /** Writes at once where there is enough for a whole write, else a little later. */
  #writeSoon(): void {
    if (this.#waiting >= CHUNK_BYTES) {
      this.#writeNext();
      return;
    }
    if (this.#isDue || this.#waiting === 0) return;
    this.#isDue = true;
    // A process that ends meanwhile writes the rest itself.
    setTimeout(() => {
      this.#isDue = false;
      if (!this.#chunk) this.#writeNext();
    }, GATHER_MS).unref();
  }

  #writeNext(): void {
    this.#chunk = this.#takeChunk();
    if (this.#chunk) this.#writeChunk(this.#chunk);
  }

  #writeChunk(chunk: Chunk): void {
    this.#isInFlight = true;
    write(this.#options.fd, chunk.bytes, (error, written) => {
      this.#isInFlight = false;
      if (error?.code === "EAGAIN") {
        setTimeout(() => this.#writeChunk(chunk), RETRY_MS).unref();
        return;
      }
      if (error) for (let line = 0; line < chunk.lines; line++) this.#options.onDrop();
      chunk.bytes = chunk.bytes.subarray(written);
      if (!error && chunk.bytes.length > 0) {
        this.#writeChunk(chunk);
        return;
      }
      this.#chunk = undefined;
      this.#writeSoon();
    });
  }

  /** Takes as many lines as one write may have, and one at least where any waits. */
  #takeChunk(): Chunk | undefined {
    let count = 0;
    let bytes = 0;
    for (const line of this.#lines) {
      bytes += Buffer.byteLength(line);
      if (count > 0 && bytes > CHUNK_BYTES) break;
      count += 1;
    }
    if (count === 0) return undefined;
    const text = this.#lines.splice(0, count).join("");
    this.#waiting -= text.length;
    return { bytes: Buffer.from(text), lines: count };
  }
}
