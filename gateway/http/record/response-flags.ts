import { OUTCOMES, type ResponseFlag } from "../../outcome.ts";
import type { ClosedRequest } from "./request-record.ts";

/** Flags of failures that are retried: after several attempts, all of them failed. */
const OF_TRIES: ReadonlySet<ResponseFlag> = new Set(["UH", "UF", "UC", "UR", "UO", "UT", "UPE"]);

export type FlaggedRequest = Pick<ClosedRequest, "detail" | "endReason" | "attempts" | "firstDeltaMs">;

/** Returns the response flags of a completed request in Envoy's form: joined by commas, `-` for none. */
export function responseFlags({ detail, endReason, attempts, firstDeltaMs }: FlaggedRequest): string {
  if (endReason === "client_closed") return "DC";
  if (endReason === "slow_reader") return "SI";
  if (detail === undefined) return "-";
  const { flag, final = false } = OUTCOMES[detail];
  if (flag === undefined) return "-";
  // No retry follows the first delta.
  const triesFailed = attempts > 1 && firstDeltaMs === undefined && OF_TRIES.has(flag) && !final;
  return triesFailed ? `${flag},URX` : flag;
}
