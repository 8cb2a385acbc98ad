/**
 * Envoy's response flags, as far as this gateway can know them. UH: no healthy endpoint. UF: could not connect. UC: the
 * connection was lost. UR: the endpoint reset the call. UO: a queue was full, or moved too slowly. UT: the endpoint was too
 * slow. UPE: it broke the protocol. URX: all tries failed. NR: no route. NC: no such cluster. DC: the client left.
 * DPE: the request was not clear. OM: this process is overloaded. SI: the client took nothing. RL: a limit of the key. LR:
 * this gateway ended it, because it had to stop.
 */
export type ResponseFlag =
  | "UH"
  | "UF"
  | "UC"
  | "UR"
  | "UO"
  | "UT"
  | "UPE"
  | "URX"
  | "NR"
  | "NC"
  | "DC"
  | "DPE"
  | "SI"
  | "RL"
  | "OM"
  | "LR";

/** By detail token. A token that is not here is nobody's failure on the way: a fault in the body, a wrong key. */
const BY_DETAIL: Readonly<Record<string, ResponseFlag>> = {
  no_healthy_upstream: "UH",
  upstream_draining: "UH",
  upstream_loading: "UH",
  upstream_model_not_served: "UH",
  upstream_connect_failure: "UF",
  upstream_reset: "UC",
  upstream_aborted: "UR",
  upstream_internal: "UR",
  upstream_ended_early: "UR",
  upstream_protocol_error: "UPE",
  upstream_message_too_large: "UPE",
  upstream_queue_full: "UO",
  upstream_pending_overflow: "UO",
  upstream_pending_timeout: "UO",
  upstream_timeout: "UT",
  upstream_accept_timeout: "UT",
  upstream_per_try_timeout: "UT",
  upstream_per_try_idle_timeout: "UT",
  upstream_inter_token_timeout: "UT",
  unknown_url: "NR",
  method_not_allowed: "NR",
  unknown_model: "NC",
  downstream_remote_disconnect: "DC",
  request_timeout: "DPE",
  header_fields_too_large: "DPE",
  expectation_failed: "DPE",
  drain_timeout: "LR",
};

const BY_SHAPE: readonly (readonly [RegExp, ResponseFlag])[] = [
  [/^key_.*_(exceeded|overflow)$/, "RL"],
  [/^unclear_/, "DPE"],
  [/^overload_/, "OM"],
];

/** Failures that no other endpoint would have mended: nothing was tried again after them. */
const FINAL: ReadonlySet<string> = new Set(["upstream_timeout", "upstream_message_too_large", "drain_timeout"]);
const OF_TRIES: ReadonlySet<ResponseFlag> = new Set(["UH", "UF", "UC", "UR", "UO", "UT", "UPE"]);

export type FlaggedRequest = {
  /** Why it did not end well: a token of ours. */
  readonly detail: string | undefined;
  readonly endReason: string | undefined;
  /** Calls to endpoints that were made for it. */
  readonly attempts: number;
  /** Whether a delta came: then nothing is tried again. */
  readonly begun: boolean;
};

/** The flags of a finished request in Envoy's form: joined by commas, `-` for none. */
export function responseFlags({ detail, endReason, attempts, begun }: FlaggedRequest): string {
  if (endReason === "client_closed") return "DC";
  if (endReason === "slow_reader") return "SI";
  const flag = detail === undefined ? undefined : flagOf(detail);
  if (detail === undefined || flag === undefined) return "-";
  const triesFailed = attempts > 1 && !begun && OF_TRIES.has(flag) && !FINAL.has(detail);
  return triesFailed ? `${flag},URX` : flag;
}

function flagOf(detail: string): ResponseFlag | undefined {
  if (Object.hasOwn(BY_DETAIL, detail)) return BY_DETAIL[detail];
  return BY_SHAPE.find(([shape]) => shape.test(detail))?.[1];
}
