/** A loopback address without brackets, including the IPv4-mapped form that IPv6 sockets report. */
const LOOPBACK = /^(?:localhost|(?:::ffff:)?127(?:\.\d{1,3}){3}|::1)$/i;

/**
 * Returns whether `host`, an IP address or a name from a configuration or a socket, is reachable from this machine
 * only. An IPv6 address may have brackets; a name other than `localhost` may be anywhere.
 */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host.replace(/^\[(.*)\]$/, "$1"));
}
