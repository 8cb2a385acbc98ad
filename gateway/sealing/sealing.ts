import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import type { SealedKind, Sealer } from "../formats/format.ts";
import { KEY_ID_BYTES, newSealingKey, type SealingKey, type SealingKeys } from "./sealing-key.ts";

/*
 * A sealed text is base64 of: the version, the id of the key, a nonce, the tag, the encrypted text. Version and id are
 * authenticated with it, and so is what the text was sealed for.
 */

/** The version of the form; version 1 named no key and was sealed for a tenant alone. */
const VERSION = 2;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const HEAD_BYTES = 1 + KEY_ID_BYTES;
const TAG_AT = HEAD_BYTES + NONCE_BYTES;
const BODY_AT = TAG_AT + TAG_BYTES;

/** The scope of a sealed text: it opens for nobody and nothing else. */
export type SealScope = {
  /** The tenant to whom the text belongs. */
  readonly tenant: string;
  /** The catalog id of the model that the text is of: reasoning means nothing to another one, a summary does. */
  readonly model: string;
  /** The name of the format that carries the text, each in a field of its own. */
  readonly format: string;
};

/**
 * The ways in which looking at a text ends that a caller sent back. `unknown_key` says that it names a key that is not
 * here; `refused` that it is not ours, was changed, or was sealed for another tenant, model, format or kind.
 */
export const OPENINGS = ["opened", "unknown_key", "refused"] as const;

/** The way in which looking at a text ended that a caller sent back; `OPENINGS` has the meaning of each. */
export type Opening = (typeof OPENINGS)[number];

/**
 * Makes sealers from a list of secrets: AES-256-GCM with a key of the tenant's own, bound to the format, the kind and,
 * of reasoning, the model, so that what one tenant was given opens for no other, nor where it does not belong. Nothing
 * is stored; the caller carries the sealed text.
 */
export class Sealing {
  readonly #onUnknownKey: (id: string) => void;
  readonly #openings: Record<Opening, number> = { opened: 0, unknown_key: 0, refused: 0 };
  #keys: SealingKeys;

  /**
   * Makes a sealing. `keys` are the same on all gateways whose callers may meet either of them; the default is one that
   * ends with the process. `onUnknownKey` is called with the id of the key whenever a text names one that is not here;
   * what a caller makes up may name one, too.
   */
  constructor(keys: SealingKeys = [newSealingKey()], onUnknownKey: (id: string) => void = () => {}) {
    this.#keys = keys;
    this.#onUnknownKey = onUnknownKey;
  }

  /** Takes other keys from now on. */
  use(keys: SealingKeys): void {
    this.#keys = keys;
  }

  /**
   * The keys in force, the one that seals first, with their secrets: for a sealing of the same keys on another thread of
   * this process. They are copies.
   */
  get keys(): SealingKeys {
    const copy = ({ id, secret }: SealingKey): SealingKey => ({ id, secret: Uint8Array.from(secret) });
    const [first, ...others] = this.#keys;
    return [copy(first), ...others.map(copy)];
  }

  /** Counts what another sealing of the same keys found in texts that callers sent back, and tells of unknown keys. */
  opened(openings: Readonly<Record<Opening, number>>, unknownKeys: readonly string[]): void {
    for (const opening of OPENINGS) this.#openings[opening] += openings[opening];
    for (const id of unknownKeys) this.#onUnknownKey(id);
  }

  /** The ids of the keys, the one that seals first. */
  get keyIds(): readonly string[] {
    return this.#keys.map(({ id }) => id);
  }

  /** The numbers of texts that callers sent back, by whether they were opened, and why not. */
  get openings(): Readonly<Record<Opening, number>> {
    return this.#openings;
  }

  /** Returns the sealer of what is for `scope`. */
  for(scope: SealScope): Sealer {
    const purpose = (kind: SealedKind) =>
      JSON.stringify(kind === "reasoning" ? [scope.format, scope.model] : [scope.format, null, kind]);
    // By key and use. Derived at first use, as most requests carry no reasoning.
    let derived: Map<string, Buffer> | undefined;
    const derive = (use: "seal" | "sign", { id, secret }: SealingKey): Buffer => {
      const name = `${use} ${id}`;
      derived ??= new Map();
      const known = derived.get(name) ?? derive32(secret, `svc sealing ${VERSION} ${use} ${scope.tenant}`);
      derived.set(name, known);
      return known;
    };
    return {
      sign: (text) => {
        const key = derive("sign", this.#keys[0]);
        return createHmac("sha256", key)
          .update(`${purpose("reasoning")}\n${text}`)
          .digest("base64");
      },
      seal: (text, kind = "reasoning") => {
        const [key] = this.#keys;
        return seal(key.id, derive("seal", key), purpose(kind), text);
      },
      open: (sealed, kind = "reasoning") => {
        const text = this.#open(Buffer.from(sealed, "base64"), purpose(kind), (key) => derive("seal", key));
        if (text !== undefined) this.#openings.opened += 1;
        return text;
      },
    };
  }

  #open(bytes: Buffer, purpose: string, derive: (key: SealingKey) => Buffer): string | undefined {
    if (bytes.length < BODY_AT || bytes[0] !== VERSION) return this.#refused();
    const id = bytes.subarray(1, HEAD_BYTES).toString("hex");
    const key = this.#keys.find((one) => one.id === id);
    if (key) return unseal(derive(key), purpose, bytes) ?? this.#refused();
    this.#openings.unknown_key += 1;
    this.#onUnknownKey(id);
    return undefined;
  }

  #refused(): undefined {
    this.#openings.refused += 1;
  }
}

function derive32(secret: Uint8Array, info: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, "", info, 32));
}

function seal(keyId: string, key: Buffer, purpose: string, text: string): string {
  const head = Buffer.concat([Buffer.of(VERSION), Buffer.from(keyId, "hex")]);
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  cipher.setAAD(associated(head, purpose));
  const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([head, nonce, cipher.getAuthTag(), body]).toString("base64");
}

/** Returns the text; undefined where it was changed, or sealed for something else. */
function unseal(key: Buffer, purpose: string, bytes: Buffer): string | undefined {
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(HEAD_BYTES, TAG_AT));
  decipher.setAAD(associated(bytes.subarray(0, HEAD_BYTES), purpose));
  decipher.setAuthTag(bytes.subarray(TAG_AT, BODY_AT));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(BODY_AT)), decipher.final()]).toString("utf8");
  } catch {
    return undefined;
  }
}

function associated(head: Buffer, purpose: string): Buffer {
  return Buffer.concat([head, Buffer.from(purpose)]);
}
