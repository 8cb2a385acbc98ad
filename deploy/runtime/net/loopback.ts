import { isIP } from "node:net";

/** A loopback address without brackets, including the IPv4-mapped form that IPv6 sockets report. */
const LOOPBACK = /^(?:localhost|(?:::ffff:)?127(?:\.\d{1,3}){3}|::1)$/i;

/**
 * Returns whether `host`, an IP address or a name from a configuration or a socket, is reachable from this machine
 * only. An IPv6 address may have brackets; a name other than `localhost` may be anywhere.
 */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host.replace(/^\[(.*)\]$/, "$1"));
}

/**
 * Returns the name of a `Host` header without its port and the brackets of an IPv6 address, in lower case; undefined if
 * it is missing or malformed.
 */
export function hostName(host: string | undefined): string | undefined {
  // Other parts of a URL are not valid in a `Host` header: a user before an "@" would be ignored.
  if (host === undefined || /[@/\\?#]/.test(host) || !URL.canParse(`http://${host}`)) return undefined;
  return new URL(`http://${host}`).hostname.replace(/^\[|\]$/g, "");
}

/** Whether a name is an IP address or `localhost`: the owner of any other could point it at this machine. */
export function isAddress(name: string): boolean {
  return isIP(name) !== 0 || name === "localhost";
}
