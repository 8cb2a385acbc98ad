const MASK = "[redacted]";
/** The names of settings that hold a secret; not a path to a file with one. */
const SECRET_NAME = /(secret|password|passphrase|token|credential|bearer|salt|hash|digest)s?$/i;
/** The names of settings that hold a secret, unless they are an object with settings about keys or access. */
const KEY_NAME = /(key|auth)s?$/i;
/** The start of a URL with credentials: `scheme://user:password@host`. */
const USER_INFO = /^([a-z][a-z0-9+.-]*:\/\/)[^/@\s]*@/i;
/** A URL with a query or fragment, in which some services expect their credentials. */
const BEHIND_PATH = /^([a-z][a-z0-9+.-]*:\/\/[^?#\s]*[?#]).+$/is;

/** Returns a copy of a configuration for display: secrets and hashes are removed at any depth. */
export function maskSecrets(value: unknown): unknown {
  if (typeof value === "string") return value.replace(USER_INFO, `$1${MASK}@`).replace(BEHIND_PATH, `$1${MASK}`);
  if (Array.isArray(value)) return value.map(maskSecrets);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, maskMember(name, inner)]));
}

function maskMember(name: string, value: unknown): unknown {
  // For example a limit on tokens.
  if (typeof value === "number" || typeof value === "boolean" || value === null || value === undefined) return value;
  if (SECRET_NAME.test(name) || (KEY_NAME.test(name) && typeof value === "string")) return MASK;
  if (KEY_NAME.test(name) && Array.isArray(value))
    return value.map((item) => (typeof item === "string" ? MASK : maskSecrets(item)));
  return maskSecrets(value);
}
