import { isIP } from "node:net";

/**
 * Returns whether a request with this `Origin` may change something: only one from the admin's own page, opened by
 * address or as localhost. A name proves nothing: whoever owns it can point it here. Tools send no `Origin` and are let
 * through.
 */
export function isOwnOrigin(origin: string | undefined, host: string | undefined): boolean {
  if (origin === undefined) return true;
  if (host === undefined || !URL.canParse(origin)) return false;
  const url = new URL(origin);
  if (url.protocol !== "http:" && url.protocol !== "https:") return false;
  const name = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(name) === 0 && name !== "localhost") return false;
  // The default port is not written in an origin, but may be in `Host`.
  return url.host === host.toLowerCase().replace(url.protocol === "http:" ? /:80$/ : /:443$/, "");
}
