/** The form of an address of this machine alone, without brackets and with the IPv4 form that IPv6 sockets report. */
const LOOPBACK = /^(?:localhost|(?:::ffff:)?127(?:\.\d{1,3}){3}|::1)$/i;

/**
 * Returns whether `host`, an IP address or a name as a configuration or a socket has it, can be reached from this
 * machine only. Brackets around an IPv6 address are fine; a name other than `localhost` may be anywhere.
 */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host.replace(/^\[(.*)\]$/, "$1"));
}
