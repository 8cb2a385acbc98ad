import { isIPv4, isIPv6 } from "node:net";

const IPV4_IN_IPV6 = /^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i;
const GROUPS_OF_A_NETWORK = 4;
const GROUPS_OF_A_SITE = 3;
const GROUPS = 8;

/**
 * Returns the client address of a request. `trustedHops` is the number of proxies in front that append the address of
 * their peer to `x-forwarded-for`, as with Envoy's `xff_num_trusted_hops`; at 0 the header is ignored. If the header
 * has fewer entries, or no valid one, the address of the connection counts.
 */
export function clientAddress(
  remote: string | undefined,
  forwardedFor: string | readonly string[] | undefined,
  trustedHops: number,
): string {
  const own = plainAddress(remote ?? "");
  if (trustedHops === 0 || forwardedFor === undefined) return own;
  const forwarded = plainAddress(String(forwardedFor).split(",").at(-trustedHops)?.trim() ?? "");
  return isIPv4(forwarded) || isIPv6(forwarded) ? forwarded : own;
}

/** Returns the network of one subscriber: an IPv4 address, or the /64 of an IPv6 one; other text is unchanged. */
export function networkOf(address: string): string {
  return isIPv6(address) ? ipv6Network(address, GROUPS_OF_A_NETWORK) : address;
}

/** Returns the part of an address that may be logged: an IPv4 /24 or an IPv6 /48; undefined for other text. */
export function loggedNetwork(address: string): string | undefined {
  if (isIPv4(address)) return `${address.slice(0, address.lastIndexOf("."))}.0/24`;
  return isIPv6(address) ? ipv6Network(address, GROUPS_OF_A_SITE) : undefined;
}

function ipv6Network(address: string, length: number): string {
  const [before = "", after] = address.split("%", 1)[0]?.toLowerCase().split("::") ?? [];
  const first = groups(before);
  const zeros = after === undefined ? 0 : GROUPS - first.length - groups(after).length;
  const all = [...first, ...Array<string>(Math.max(0, zeros)).fill("0"), ...groups(after ?? "")];
  const network = all.slice(0, length).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(":")}::/${16 * length}`;
}

/** Returns the groups of an IPv6 address. A dotted tail counts as two groups; it is never a part of the network. */
function groups(text: string): string[] {
  return text === "" ? [] : text.split(":").flatMap((group) => (group.includes(".") ? ["0", "0"] : [group]));
}

function plainAddress(address: string): string {
  return address.replace(IPV4_IN_IPV6, "");
}
