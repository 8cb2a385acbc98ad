import { isIP } from "node:net";

/**
 * Returns the name of a `Host` header without its port and without the brackets of an IPv6 address, in lower case;
 * undefined where there is none or it has no such form.
 */
export function hostName(host: string | undefined): string | undefined {
  // What a URL has beside a host, a `Host` has not: a user before an "@" would be passed over.
  if (host === undefined || /[@/\\?#]/.test(host) || !URL.canParse(`http://${host}`)) return undefined;
  return new URL(`http://${host}`).hostname.replace(/^\[|\]$/g, "");
}

/**
 * Returns whether a name, as `hostName` gives it, is an IP address or `localhost`: any other may be pointed at this
 * machine by whoever owns it.
 */
export function isAddress(name: string): boolean {
  return isIP(name) !== 0 || name === "localhost";
}
