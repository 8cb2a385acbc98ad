import { readFile } from "node:fs/promises";
import { createLocalJWKSet, type JWTVerifyGetKey } from "jose";
import { FollowedFile } from "../../../deploy/runtime/files/followed-file.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** Milliseconds between two reads of the address. */
const READ_EVERY_MS = 300_000;
/** Least milliseconds between two reads because of unknown keys: callers can make them up. */
const READ_AGAIN_MS = 30_000;
const GIVE_UP_MS = 5_000;
/** Largest answer or file, in bytes: far more than the keys of any issuer. */
const MAX_BYTES = 262_144;

export type IssuerKeysOptions = {
  /** Address of the JWKS; undefined if it is in a file. */
  readonly url: string | undefined;
  /** Path of the JWKS; undefined if it has an address. */
  readonly file: string | undefined;
  readonly clock: Clock;
  /**
   * Called when the newest keys cannot be read or used, and with undefined once they can be again; `everRead` is true
   * if earlier keys are in force.
   */
  readonly onReload: (fault: string | undefined, everRead: boolean) => void;
};

/** Keeps the public keys of an issuer. A failed read removes no keys: the last good ones stay in force. */
export class IssuerKeys {
  readonly #options: IssuerKeysOptions;
  readonly #followed: FollowedFile | undefined;
  #set: JWTVerifyGetKey = createLocalJWKSet({ keys: [] });
  #text = "";
  #edition = 0;
  #reading: Promise<void> | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #fault: string | undefined;
  #cancel = () => {};
  #closed = false;

  private constructor(options: IssuerKeysOptions) {
    this.#options = options;
    const { file, clock } = options;
    if (file === undefined) return;
    this.#followed = new FollowedFile({
      files: [file],
      clock,
      take: async () => {
        await this.#read();
        return this.#fault === undefined ? "taken" : "again";
      },
    });
  }

  /** Reads the keys and follows them until `close`. Until the first successful read, no token is accepted. */
  static async open(options: IssuerKeysOptions): Promise<IssuerKeys> {
    const keys = new IssuerKeys(options);
    if (keys.#followed) await keys.#followed.look();
    else await keys.#readAgainAndAgain();
    return keys;
  }

  /** Number of different sets of keys so far: a key that verified under an earlier edition may be withdrawn. */
  get edition(): number {
    return this.#edition;
  }

  /** Whether keys were read since the start; before, no token can be verified. */
  get everRead(): boolean {
    return this.#edition > 0;
  }

  /** Finds the key that a token names. Rejects with an error of jose if there is none. */
  readonly find: JWTVerifyGetKey = (header, token) => this.#set(header, token);

  /** Reads the keys again for a token with an unknown key, unless they were just read. Never rejects. */
  async lookAgain(): Promise<boolean> {
    if (this.#followed) return false;
    const beforeMs = this.#readAtMs;
    if (this.#reading === undefined && this.#options.clock.nowMs() - beforeMs < READ_AGAIN_MS) return false;
    await this.#readOnce();
    return true;
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
    this.#followed?.close();
  }

  async #readAgainAndAgain(): Promise<void> {
    await this.#readOnce();
    const waitMs = this.#fault === undefined ? READ_EVERY_MS : READ_AGAIN_MS;
    if (!this.#closed) this.#cancel = this.#options.clock.after(waitMs, () => void this.#readAgainAndAgain());
  }

  #readOnce(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const before = this.#fault;
    this.#readAtMs = this.#options.clock.nowMs();
    try {
      const text = await this.#published();
      if (text !== this.#text) {
        this.#set = createLocalJWKSet(JSON.parse(text));
        this.#text = text;
        this.#edition += 1;
      }
      this.#fault = undefined;
    } catch {
      // Neither the address nor its contents may be logged.
      this.#fault = "the keys cannot be read, or are no JWKS";
    }
    if (this.#fault !== before && !this.#closed) this.#options.onReload(this.#fault, this.everRead);
  }

  async #published(): Promise<string> {
    const { url, file } = this.#options;
    if (file !== undefined) return bounded(await readFile(file));
    const headers = { accept: "application/jwk-set+json, application/json" };
    const signal = AbortSignal.timeout(GIVE_UP_MS);
    const response = await fetch(String(url), { headers, signal, redirect: "error" });
    if (!response.ok || !response.body) throw new Error("it cannot be read");
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of response.body) {
      size += chunk.length;
      if (size > MAX_BYTES) throw new Error("it is too large");
      chunks.push(chunk);
    }
    return bounded(Buffer.concat(chunks));
  }
}

function bounded(bytes: Buffer): string {
  if (bytes.length > MAX_BYTES) throw new Error("it is too large");
  return bytes.toString("utf8");
}
