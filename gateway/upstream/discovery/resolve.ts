import { lookup } from "node:dns/promises";

/** Looks up all IP addresses of a host. Rejects when there are none, or nobody says. */
export type Resolve = (host: string) => Promise<readonly string[]>;

/**
 * The most lookups at a time. The system's resolver waits for answers in Node's few worker threads, which others need,
 * too.
 */
const MAX_LOOKUPS = 2;

/**
 * Returns the system's resolver, with its hosts file and search domains, as other programs on the machine have it. Who
 * asks for a host that is being looked up gets the same answer.
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
