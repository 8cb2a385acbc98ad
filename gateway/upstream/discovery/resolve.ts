import { lookup } from "node:dns/promises";

/** Looks up all IP addresses of a host. Rejects when there are none, or the lookup fails. */
export type Resolve = (host: string) => Promise<readonly string[]>;

/**
 * The most concurrent lookups. The system's resolver blocks some of Node's few worker threads, which others need, too.
 */
const MAX_LOOKUPS = 2;

/**
 * Returns the system's resolver, with its hosts file and search domains. Concurrent lookups of one host share a result.
 */
export function systemResolve(): Resolve {
  const underWay = new Map<string, Promise<readonly string[]>>();
  const waiting: (() => void)[] = [];
  let running = 0;

  const look = async (host: string): Promise<readonly string[]> => {
    if (running >= MAX_LOOKUPS) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return (await lookup(host, { all: true, order: "verbatim" })).map(({ address }) => address);
    } finally {
      underWay.delete(host);
      // The next one takes over the place.
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
  return (host) => {
    const known = underWay.get(host);
    if (known) return known;
    const answer = look(host);
    underWay.set(host, answer);
    return answer;
  };
}
