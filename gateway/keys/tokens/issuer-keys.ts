import { readFile } from "node:fs/promises";
import { createLocalJWKSet, type JWTVerifyGetKey } from "jose";
import { FollowedFile } from "../../../deploy/runtime/files/followed-file.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** The time between two reads of the address, in milliseconds. */
const READ_EVERY_MS = 300_000;
/** The least time between two reads of the address for keys that are not known, in milliseconds: callers make them up. */
const READ_AGAIN_MS = 30_000;
const GIVE_UP_MS = 5_000;
/** The largest answer, or file, that is taken, in bytes: far more than any issuer has keys. */
const MAX_BYTES = 262_144;

/** Where an issuer publishes its keys, and who is told. */
export type IssuerKeysOptions = {
  /** The address of the JWKS; undefined where it stands in a file. */
  readonly url: string | undefined;
  /** The path of the JWKS; undefined where it has an address. */
  readonly file: string | undefined;
  /** The clock that says when to read again. */
  readonly clock: Clock;
  /**
   * Called when the newest keys could not be read or used, and with undefined when they can again; `everRead` says
   * whether there are earlier ones.
   */
  readonly onReload: (fault: string | undefined, everRead: boolean) => void;
};

/** Keeps the public keys of an issuer. Keys that cannot be read take none away: the last good ones stay in force. */
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

  /** Reads the keys and follows them until `close`. Where they cannot be read yet, no token is taken until they are. */
  static async open(options: IssuerKeysOptions): Promise<IssuerKeys> {
    const keys = new IssuerKeys(options);
    if (keys.#followed) await keys.#followed.look();
    else await keys.#readAgainAndAgain();
    return keys;
  }

  /** The number of different sets of keys so far: what an earlier one has verified may be by a key that is withdrawn. */
  get edition(): number {
    return this.#edition;
  }

  /** Whether keys were read since the start; before, no token can be verified. */
  get everRead(): boolean {
    return this.#edition > 0;
  }

  /** Finds the key that a token names. Rejects with an error of jose where there is none. */
  readonly find: JWTVerifyGetKey = (header, token) => this.#set(header, token);

  /** Reads the keys again for a token whose key is not known, unless that was done just now. Never rejects. */
  async lookAgain(): Promise<boolean> {
    if (this.#followed) return false;
    const beforeMs = this.#readAtMs;
    if (this.#reading === undefined && this.#options.clock.nowMs() - beforeMs < READ_AGAIN_MS) return false;
    await this.#readOnce();
    return true;
  }

  /** Stops following. */
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
      // Neither an address nor what stands there is for the log.
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
