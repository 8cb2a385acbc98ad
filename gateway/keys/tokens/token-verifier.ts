import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createLocalJWKSet, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from "jose";
import { LRUCache } from "lru-cache";
import { FollowedFile } from "../../../deploy/runtime/files/followed-file.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { hmacSha256 } from "../key-digest.ts";
import type { TokensSettings } from "../key-settings.ts";
import type { KeyStore } from "../key-store.ts";
import type { Principal } from "../principal.ts";

/** Accepted signatures: those whose keys can be published. */
const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"];
/** Tolerated clock difference, in seconds. */
const LEEWAY_SECONDS = 30;
/** Longest remaining validity of an accepted token, in seconds: long-lived credentials should be keys. */
const MAX_LIFETIME_SECONDS = 86_400;
const MAX_LENGTH = 4_096;

/** Most verified tokens in the cache; more are verified again. */
const MAX_REMEMBERED = 10_000;

/** Three parts in base64url, of which the first begins an object. */
const FORM = /^eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;

export type TokenVerifierOptions = {
  readonly settings: TokensSettings;
  readonly keys: KeyStore;
  readonly clock: Clock;
  /** Called when the issuer's newest keys are unusable, then undefined; `everRead`: earlier ones are in force. */
  readonly onReload: (fault: string | undefined, everRead: boolean) => void;
};

/** A verified token: its expiry, its principal, and the edition of the issuer's keys that verified it. */
type Verified = {
  readonly untilMs: number;
  readonly keyId: string;
  readonly subject: string | undefined;
  readonly edition: number;
};

/**
 * Accepts tokens instead of keys. A token has the rights of the key record that it names, while that record is in force
 * and the token has not expired. Its signature is verified by threads of Node, once for each set of keys of the issuer,
 * and cached by a digest of the token.
 */
export class TokenVerifier {
  readonly #options: TokenVerifierOptions;
  readonly #issuer: IssuerKeys;
  readonly #remembered = new LRUCache<string, Verified>({ max: MAX_REMEMBERED });
  readonly #running = new Map<string, Promise<Verified | undefined>>();

  private constructor(options: TokenVerifierOptions, issuer: IssuerKeys) {
    this.#options = options;
    this.#issuer = issuer;
  }

  static async open(options: TokenVerifierOptions): Promise<TokenVerifier> {
    return new TokenVerifier(options, await IssuerKeys.open(options));
  }

  /** Whether keys of the issuer were read since the start; before, every token is refused. */
  get everRead(): boolean {
    return this.#issuer.edition > 0;
  }

  readonly longest = MAX_LENGTH;

  /** Resolves to the principal of a token; undefined if it is invalid. Takes any text, never rejects. */
  async find(presented: string): Promise<Principal | undefined> {
    const { clock, keys, settings } = this.#options;
    if (presented.length > MAX_LENGTH || !FORM.test(presented)) return undefined;
    const digest = hash("sha256", presented, "base64url");
    const known = this.#remembered.get(digest);
    if (known && known.edition !== this.#issuer.edition) this.#remembered.delete(digest);
    const verified = this.#remembered.get(digest) ?? (await this.#verifyOnce(presented, digest));
    if (verified === undefined) return undefined;
    if (clock.wallMs() >= verified.untilMs) {
      this.#remembered.delete(digest);
      return undefined;
    }
    const principal = keys.inForce(verified.keyId);
    if (!settings.subjectIsTenant || verified.subject === undefined) return principal;
    return principal && ofSubject(principal, verified.subject);
  }

  close(): void {
    this.#issuer.close();
  }

  #verifyOnce(token: string, digest: string): Promise<Verified | undefined> {
    let running = this.#running.get(digest);
    if (!running) {
      running = this.#verify(token)
        .then((verified) => {
          if (verified) this.#remembered.set(digest, verified);
          return verified;
        })
        .finally(() => this.#running.delete(digest));
      this.#running.set(digest, running);
    }
    return running;
  }

  async #verify(token: string): Promise<Verified | undefined> {
    const { edition } = this.#issuer;
    const payload = await this.#payloadOf(token);
    if (payload?.exp === undefined) return undefined;
    const { keyClaim, subjectIsTenant } = this.#options.settings;
    const keyId = Object.hasOwn(payload, keyClaim) ? payload[keyClaim] : undefined;
    if (typeof keyId !== "string") return undefined;
    const untilMs = (payload.exp + LEEWAY_SECONDS) * 1_000;
    if (untilMs - this.#options.clock.wallMs() > (MAX_LIFETIME_SECONDS + LEEWAY_SECONDS) * 1_000) return undefined;
    // Without a subject there is no tenant.
    if (subjectIsTenant && payload.sub === undefined) return undefined;
    return { untilMs, keyId, subject: payload.sub, edition };
  }

  async #payloadOf(token: string): Promise<JWTPayload | undefined> {
    const { issuer, audience, requiredType } = this.#options.settings;
    const verify = async () => {
      const { payload } = await jwtVerify(token, this.#issuer.find, {
        ...{ issuer, audience: [...audience], algorithms: ALGORITHMS, requiredClaims: ["exp"] },
        ...(requiredType !== undefined && { typ: requiredType }),
        ...{ clockTolerance: LEEWAY_SECONDS, currentDate: new Date(this.#options.clock.wallMs()) },
      });
      return payload;
    };
    try {
      return await verify();
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || !(await this.#issuer.lookAgain())) return undefined;
    }
    return await verify().catch(() => undefined);
  }
}

/** Returns the principal of one subject of a key record: a tenant of its own, whose use counts on the shared record. */
function ofSubject(principal: Principal, subject: string): Principal {
  const derived = (use: string) => hmacSha256(principal.routingKey, JSON.stringify(["subject", use, subject]));
  return {
    ...principal,
    tenant: derived("tenant").subarray(0, 24).toString("base64url"),
    cacheSalt: derived("cache-salt").toString("base64url"),
    routingKey: derived("routing"),
  };
}

/** Milliseconds between two reads of the address. */
const READ_EVERY_MS = 300_000;
/** Least milliseconds between two reads because of unknown keys: callers can make them up. */
const READ_AGAIN_MS = 30_000;
const GIVE_UP_MS = 5_000;
/** Largest answer or file, in bytes: far more than the keys of any issuer. */
const MAX_BYTES = 262_144;

/** Keeps the public keys of an issuer. A failed read removes no keys: the last good ones stay in force. */
class IssuerKeys {
  readonly #options: TokenVerifierOptions;
  readonly #followed: FollowedFile | undefined;
  #set: JWTVerifyGetKey = createLocalJWKSet({ keys: [] });
  #text = "";
  /** Number of different sets of keys so far: a key that verified under an earlier edition may be withdrawn. */
  edition = 0;
  #reading: Promise<void> | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #fault: string | undefined;
  #cancel = () => {};
  #closed = false;

  private constructor(options: TokenVerifierOptions) {
    this.#options = options;
    const { settings, clock } = options;
    const file = settings.jwksFile;
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

  static async open(options: TokenVerifierOptions): Promise<IssuerKeys> {
    const keys = new IssuerKeys(options);
    if (keys.#followed) await keys.#followed.look();
    else await keys.#readAgainAndAgain();
    return keys;
  }

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
        this.edition += 1;
      }
      this.#fault = undefined;
    } catch {
      // Neither the address nor its contents may be logged.
      this.#fault = "the keys cannot be read, or are no JWKS";
    }
    if (this.#fault !== before && !this.#closed) this.#options.onReload(this.#fault, this.edition > 0);
  }

  async #published(): Promise<string> {
    const { jwksUrl: url, jwksFile: file } = this.#options.settings;
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
