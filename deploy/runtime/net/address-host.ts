import { isIP } from "node:net";

/**
 * Returns the name of a `Host` header without its port and the brackets of an IPv6 address, in lower case; undefined if
 * it is missing or malformed.
 */
export function hostName(host: string | undefined): string | undefined {
  // Other parts of a URL are not valid in a `Host` header: a user before an "@" would be ignored.
  if (host === undefined || /[@/\\?#]/.test(host) || !URL.canParse(`http://${host}`)) return undefined;
  return new URL(`http://${host}`).hostname.replace(/^\[|\]$/g, "");
}

/**
 * Returns whether a name, as `hostName` returns it, is an IP address or `localhost`: the owner of any other name could
 * point it at this machine.
 */
export function isAddress(name: string): boolean {
  return isIP(name) !== 0 || name === "localhost";
}
