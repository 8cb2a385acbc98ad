import { isIP } from "node:net";

/** A loopback address without brackets, including the IPv4-mapped form that IPv6 sockets report. */
const LOOPBACK = /^(?:localhost|(?:::ffff:)?127(?:\.\d{1,3}){3}|::1)$/i;

/** Returns whether `host` is reachable from this machine only; an IPv6 address may have brackets. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host.replace(/^\[(.*)\]$/, "$1"));
}

/** Returns the name in a `Host` header, in lower case without port and brackets; undefined if it is malformed. */
export function hostName(host: string | undefined): string | undefined {
  // Other parts of a URL are not valid in a `Host` header: a user before an "@" would be ignored.
  if (host === undefined || /[@/\\?#]/.test(host) || !URL.canParse(`http://${host}`)) return undefined;
  return new URL(`http://${host}`).hostname.replace(/^\[|\]$/g, "");
}

/** Whether a name is an IP address or `localhost`: the owner of any other could point it at this machine. */
export function isAddress(name: string): boolean {
  return isIP(name) !== 0 || name === "localhost";
}
