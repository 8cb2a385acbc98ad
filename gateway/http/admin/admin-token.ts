import { createHash, timingSafeEqual } from "node:crypto";
import { FollowedFile } from "../../../deploy/runtime/files/followed-file.ts";
import { FileError, readPrivateFile } from "../../../deploy/runtime/files/private-file.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** The smallest length of a token in characters: a shorter one can be guessed. */
const MIN_TOKEN_LENGTH = 16;

type Reload = (fault: string | undefined) => void;

const digestOf = (text: string): Buffer => createHash("sha256").update(text).digest();

/** The error for a token file that is missing, too short or open to others; its message names no content. */
export class AdminTokenError extends Error {
  override readonly name = "AdminTokenError";
}

/** Keeps the token of the admin port, as a digest, and watches its file: an unusable file changes nothing. */
export class AdminToken {
  readonly #file: string;
  readonly #onReload: Reload;
  readonly #followed: FollowedFile;
  #digest: Buffer;
  #fault: string | undefined;

  private constructor(file: string, digest: Buffer, clock: Pick<Clock, "after">, onReload: Reload) {
    this.#file = file;
    this.#digest = digest;
    this.#onReload = onReload;
    this.#followed = new FollowedFile({ files: [file], clock, take: (signal) => this.#take(signal) });
  }

  /**
   * Reads the token and watches `file` until `close`. Rejects with `AdminTokenError` if it is unusable. After each
   * later change of the file, `onReload` receives undefined if the token was replaced, else the reason why it is
   * unusable.
   */
  static async open(file: string, clock: Pick<Clock, "after">, onReload: Reload): Promise<AdminToken> {
    return new AdminToken(file, await readToken(file), clock, onReload);
  }

  /** Returns whether `text` is the token; the time taken does not reveal how much of it matches. */
  is(text: string): boolean {
    return timingSafeEqual(digestOf(text), this.#digest);
  }

  /** Stops watching the file; the token in force stays. */
  close(): void {
    this.#followed.close();
  }

  async #take(signal: AbortSignal): Promise<"taken" | "again"> {
    const before = this.#fault;
    try {
      const digest = await readToken(this.#file);
      if (signal.aborted) return "again";
      const isNew = !digest.equals(this.#digest);
      this.#digest = digest;
      this.#fault = undefined;
      if (isNew || before !== undefined) this.#onReload(undefined);
    } catch (error) {
      if (!(error instanceof AdminTokenError)) throw error;
      this.#fault = error.message;
      if (this.#fault !== before) this.#onReload(this.#fault);
    }
    return this.#fault === undefined ? "taken" : "again";
  }
}

async function readToken(file: string): Promise<Buffer> {
  try {
    const token = (await readPrivateFile(file))?.toString("utf8").trim();
    if (token === undefined) throw new AdminTokenError(`${file} is not there`);
    if (token.length < MIN_TOKEN_LENGTH) throw new AdminTokenError(`${file} has fewer than 16 characters`);
    return digestOf(token);
  } catch (cause) {
    if (cause instanceof FileError) throw new AdminTokenError(cause.message, { cause });
    throw cause;
  }
}
