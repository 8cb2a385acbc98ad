import { type Detail, type EndReason, OUTCOMES, type ResponseFlag } from "../../outcome.ts";

/** The flags of failures that another try may mend: where several tries were made, all of them failed. */
const OF_TRIES: ReadonlySet<ResponseFlag> = new Set(["UH", "UF", "UC", "UR", "UO", "UT", "UPE"]);

/** What the response flags of a finished request are made of. */
export type FlaggedRequest = {
  /** Why the request did not end well; undefined where it did. */
  readonly detail: Detail | undefined;
  readonly endReason: EndReason | undefined;
  /** Calls to endpoints that were made for the request. */
  readonly attempts: number;
  /** Whether a delta came: from then on nothing is tried again. */
  readonly begun: boolean;
};

/** The response flags of a finished request in Envoy's form: joined by commas, `-` for none. */
export function responseFlags({ detail, endReason, attempts, begun }: FlaggedRequest): string {
  if (endReason === "client_closed") return "DC";
  if (endReason === "slow_reader") return "SI";
  if (detail === undefined) return "-";
  const { flag, final = false } = OUTCOMES[detail];
  if (flag === undefined) return "-";
  const triesFailed = attempts > 1 && !begun && OF_TRIES.has(flag) && !final;
  return triesFailed ? `${flag},URX` : flag;
}
