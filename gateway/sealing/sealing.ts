import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import type { SealedKind, Sealer } from "../formats/format.ts";
import { KEY_ID_BYTES, newSealingKey, type SealingKey, type SealingKeys } from "./sealing-key.ts";

/*
 * A sealed text is base64 of: the version, the id of the key, a nonce, the tag, the encrypted text. Version, id and the
 * scope of the text are authenticated.
 */

/** Version of the form; version 1 named no key and was sealed for a tenant only. */
const VERSION = 2;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const HEAD_BYTES = 1 + KEY_ID_BYTES;
const TAG_AT = HEAD_BYTES + NONCE_BYTES;
const BODY_AT = TAG_AT + TAG_BYTES;

/** A text opens only in the scope that it was sealed in. */
export type SealScope = {
  readonly tenant: string;
  /** Catalog id: reasoning is bound to its model, a summary is not. */
  readonly model: string;
  readonly format: string;
};

/** `refused`: the text is not ours, was changed, or was sealed for another tenant, model, format or kind. */
export const OPENINGS = ["opened", "unknown_key", "refused"] as const;

export type Opening = (typeof OPENINGS)[number];

/**
 * Makes sealers from a list of secrets: AES-256-GCM with a key derived for the tenant, bound to the format, the kind
 * and, for reasoning, the model. A text of one tenant does not open for another, nor in another place. The gateway
 * stores no text; the caller carries it.
 */
export class Sealing {
  readonly #onUnknownKey: (id: string) => void;
  readonly openings: Record<Opening, number> = { opened: 0, unknown_key: 0, refused: 0 };
  #keys: SealingKeys;

  /** The default is a temporary key. `onUnknownKey` is called with ids that callers can make up. */
  constructor(keys: SealingKeys = [newSealingKey()], onUnknownKey: (id: string) => void = () => {}) {
    this.#keys = keys;
    this.#onUnknownKey = onUnknownKey;
  }

  use(keys: SealingKeys): void {
    this.#keys = keys;
  }

  /** Copies of the keys in force, for a sealing on another thread of this process. */
  get keys(): SealingKeys {
    const copy = ({ id, secret }: SealingKey): SealingKey => ({ id, secret: Uint8Array.from(secret) });
    const [first, ...others] = this.#keys;
    return [copy(first), ...others.map(copy)];
  }

  /** Adds the outcomes of another sealing of the same keys, and reports its unknown keys. */
  opened(openings: Readonly<Record<Opening, number>>, unknownKeys: readonly string[]): void {
    for (const opening of OPENINGS) this.openings[opening] += openings[opening];
    for (const id of unknownKeys) this.#onUnknownKey(id);
  }

  /** The sealing key first. */
  get keyIds(): readonly string[] {
    return this.#keys.map(({ id }) => id);
  }

  for(scope: SealScope): Sealer {
    const purpose = (kind: SealedKind) =>
      JSON.stringify(kind === "reasoning" ? [scope.format, scope.model] : [scope.format, null, kind]);
    // By key and use. Derived at first use, because most requests carry no reasoning.
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
        if (text !== undefined) this.openings.opened += 1;
        return text;
      },
    };
  }

  #open(bytes: Buffer, purpose: string, derive: (key: SealingKey) => Buffer): string | undefined {
    if (bytes.length < BODY_AT || bytes[0] !== VERSION) return this.#refused();
    const id = bytes.subarray(1, HEAD_BYTES).toString("hex");
    const key = this.#keys.find((one) => one.id === id);
    if (key) return unseal(derive(key), purpose, bytes) ?? this.#refused();
    this.openings.unknown_key += 1;
    this.#onUnknownKey(id);
    return undefined;
  }

  #refused(): undefined {
    this.openings.refused += 1;
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
