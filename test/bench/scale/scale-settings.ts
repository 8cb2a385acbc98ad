export type ScaleSettings = {
  /** Endpoints that every gateway health-checks and balances over. Default: 1,000. */
  readonly endpoints: number;
  /** Key records in the store. Default: 100,000. */
  readonly keys: number;
  /** Concurrent streams over all gateways, each with its own key and one delta per second. Default: 5,000. */
  readonly streams: number;
  /** Gateways that share the store. Default: 4. */
  readonly gateways: number;
};

export const WHOLE_SCALE: ScaleSettings = { endpoints: 1_000, keys: 100_000, streams: 5_000, gateways: 4 };
export const QUICK_SCALE: ScaleSettings = { endpoints: 50, keys: 2_000, streams: 100, gateways: 2 };

/** The maximum endpoints: their addresses are 127.0.1.1 to 127.0.250.250. */
const MOST_ENDPOINTS = 62_500;

/**
 * Parses sizes such as `endpoints=100,streams=500`; unnamed ones are those of `fallback`. Undefined for another name or
 * an invalid size.
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

/** Returns the address, without port, of an endpoint by its index; on Linux all of them are local. */
export function endpointHost(number: number): string {
  return `127.0.${1 + Math.floor(number / 250)}.${1 + (number % 250)}`;
}
