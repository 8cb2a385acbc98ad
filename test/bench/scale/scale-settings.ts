/** How large the installation is that the bench of scale plays on this machine. */
export type ScaleSettings = {
  /** The number of endpoints that every gateway knows, checks and balances over. Default: 1,000. */
  readonly endpoints: number;
  /** The number of key records in the store. Default: 100,000. */
  readonly keys: number;
  /** The number of streams at once over all gateways, each with a key of its own and one delta a second. Default: 5,000. */
  readonly streams: number;
  /** The number of gateways that share the store. Default: 4. */
  readonly gateways: number;
};

/** The sizes of `npm run bench -- scale`. */
export const WHOLE_SCALE: ScaleSettings = { endpoints: 1_000, keys: 100_000, streams: 5_000, gateways: 4 };
/** The sizes of a quick look. */
export const QUICK_SCALE: ScaleSettings = { endpoints: 50, keys: 2_000, streams: 100, gateways: 2 };

/** The most endpoints: their addresses are those of 127.0.1.1 to 127.0.250.250. */
const MOST_ENDPOINTS = 62_500;

/**
 * Reads sizes such as `endpoints=100,streams=500`; those that are not named are as `fallback` has them. Returns
 * undefined for another name, and for what is no size.
 */
export function parseScale(text: string, fallback: ScaleSettings = WHOLE_SCALE): ScaleSettings | undefined {
  const sizes = new Map<string, number>(Object.entries(fallback));
  for (const part of text.split(",")) {
    const [name = "", value = ""] = part.split("=");
    const size = Number(value);
    if (!sizes.has(name) || !Number.isSafeInteger(size) || size < 1) return undefined;
    sizes.set(name, size);
  }
  const { endpoints, keys, streams, gateways } = fallback;
  const scale = {
    endpoints: sizes.get("endpoints") ?? endpoints,
    keys: sizes.get("keys") ?? keys,
    streams: sizes.get("streams") ?? streams,
    gateways: sizes.get("gateways") ?? gateways,
  };
  return scale.endpoints > MOST_ENDPOINTS ? undefined : scale;
}

/** Returns the address, without a port, of an endpoint by its number from 0: all are this machine's own on Linux. */
export function endpointHost(number: number): string {
  return `127.0.${1 + Math.floor(number / 250)}.${1 + (number % 250)}`;
}
