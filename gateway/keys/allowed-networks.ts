import { BlockList, isIP } from "node:net";

/** Returns whether `text` is an IPv4 or IPv6 address, or a network such as `10.0.0.0/8` or `2001:db8::/32`. */
export function isNetwork(text: string): boolean {
  return parseNetwork(text) !== undefined;
}

export class AllowedNetworks {
  readonly #list = new BlockList();

  /** Texts that are neither an address nor a network are ignored. */
  constructor(networks: readonly string[]) {
    for (const text of networks) {
      const network = parseNetwork(text);
      if (network) this.#list.addSubnet(network.address, network.prefix, network.family);
    }
  }

  has(address: string): boolean {
    const version = isIP(address);
    return version !== 0 && this.#list.check(address, familyOf(version));
  }
}

type Network = { readonly address: string; readonly prefix: number; readonly family: "ipv4" | "ipv6" };

function parseNetwork(text: string): Network | undefined {
  const [address = "", bits, ...more] = text.split("/");
  const version = isIP(address);
  // A zone names an interface of one host and does not identify the origin of a request.
  if (version === 0 || address.includes("%") || more.length > 0) return undefined;
  const most = version === 4 ? 32 : 128;
  if (bits === undefined) return { address, prefix: most, family: familyOf(version) };
  const prefix = /^(0|[1-9][0-9]{0,2})$/.test(bits) ? Number(bits) : Number.NaN;
  return prefix <= most ? { address, prefix, family: familyOf(version) } : undefined;
}

function familyOf(version: number): Network["family"] {
  return version === 4 ? "ipv4" : "ipv6";
}
