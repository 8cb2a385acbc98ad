import { status } from "@grpc/grpc-js";
import { EngineError, type ErrorReason, NODE_FAULTS, REASONS, toFailedCall } from "../../engine/errors.ts";
import {
  costOf,
  type Detail,
  END_REASONS,
  type EndReason,
  OUTCOMES,
  type OutcomeRow,
  RESPONSE_FLAGS,
} from "../../gateway/outcome.ts";
import { fromGrpc } from "../../gateway/upstream/call/grpc-error.ts";
import { code, page, table } from "./markdown.ts";

/** What coding agents and SDKs get in their first hour, as those of gateway/docs/agents-tried.md did. */
const FIRST: readonly (readonly [Detail, string, string])[] = [
  [
    "invalid_api_key",
    "401",
    "Send the whole key, in `authorization: Bearer` or `x-api-key`; `keys list` shows whether it ended.",
  ],
  [
    "model_not_found",
    "400, 404",
    "Set the agent's model to an id of `GET /v1/models`, the one for side requests too; an operator can serve other names as `aliases`.",
  ],
  [
    "context_length_exceeded",
    "400",
    "Set the agent's window to `context_length` of `GET /v1/models`: [agents](agents.md).",
  ],
  [
    "unsupported_parameter",
    "400",
    "`param` names the field. For hosted tools, switch the agent's web search off, or the operator sets `unsupportedTools: skip` (`npm start -- --agents`).",
  ],
  [
    "rate_limit_exceeded",
    "429",
    "Wait for `retry-after`; the detail token names the limit, and `keys set-limits` raises it: [keys](keys.md#limits).",
  ],
];

export function outcomesPage(): string {
  const all = entries(OUTCOMES);
  const others = all.filter((row) => !isPlain(row));
  const plain = all.filter(isPlain);
  return page("Errors and outcomes", "`gateway/outcome.ts`", [
    [
      "A request that fails has an error code, which the caller gets, and a detail token, which says what happened: it",
      "stands in the log line as `detail`, as Envoy's response code details do. The engine's reasons, one step further",
      "down, are in [engine/docs/errors.md](../../engine/docs/errors.md).",
    ].join("\n"),
    "## What new callers meet first",
    table(
      ["code", "status", "what to do"],
      FIRST.map(([token, ...rest]) => [code(token), ...rest]),
    ),
    "## All of them",
    [
      "`error.code` of chat, models and responses is one of these tokens; [the API's page](api.md#errors) has status and type of each.",
      "Tokens of the first table end as `error` without a flag, and count as a request of the key.",
    ].join("\n"),
    "## Plain refusals",
    table(
      ["token", "meaning"],
      plain.map(([token, { meaning }]) => [code(token), meaning]),
    ),
    "## Other tokens",
    [
      "End reason `error` and cost `request` are left out. *Cost*, of the key: `nothing`: the service had no room or had to stop. `request`: a request without",
      "tokens. `work`: an engine had it, so that its tokens count too; the quota of a day keeps only those that were counted. Of several",
      "attempts the dearest counts, and deltas that reached the caller always do. *Counter*: `rq_…` is `svc_cluster_upstream_rq_…_total`, `dim`",
      "a label of `svc_ratelimit_decisions_total`.",
    ].join("\n"),
    table(["token", "flag, end reason, cost, counter", "meaning"], others.map(detailRow)),
    "## End reasons",
    "`end_reason` of the log line, and `reason` of `svc_stream_end_total`.",
    table(["end reason", "outcome", "meaning"], endReasonRows()),
    "## Response flags",
    "`response_flags` of the log line: Envoy's letters, joined by commas; `-` where none is set.",
    table(
      ["flag", "meaning"],
      entries(RESPONSE_FLAGS).map(([flag, meaning]) => [code(flag), meaning]),
    ),
  ]);
}

export function engineErrorsPage(): string {
  return page("Errors of an engine node", "`engine/errors.ts`", [
    [
      "A failed call carries a `google.rpc.ErrorInfo` with the domain `svc.inference` and one of these reasons. *Node's",
      "fault*: the error rate that the node reports counts it. *Token*: the detail token that the gateway makes of it, see",
      "[gateway/docs/outcomes.md](../../gateway/docs/outcomes.md). *Elsewhere*: the gateway tries another node, as long as no",
      "delta has been passed on.",
    ].join("\n"),
    table(["reason", "gRPC status", "node's fault", "token", "elsewhere", "meaning"], entries(REASONS).map(reasonRow)),
  ]);
}

/** Whether a token says no more than its meaning. */
function isPlain([token, { flag, end, attemptStat, dim }]: readonly [Detail, OutcomeRow]): boolean {
  return !flag && !attemptStat && !dim && (end ?? "error") === "error" && costOf([token]) === "request";
}

function detailRow([token, row]: readonly [Detail, OutcomeRow]): readonly string[] {
  const counted = row.attemptStat ? code(`rq_${row.attemptStat}`) : row.dim ? code(`dim="${row.dim}"`) : undefined;
  const facts = [row.flag, row.end, costOf([token]), counted].filter(
    (fact) => fact !== undefined && fact !== "request",
  );
  return [code(token), facts.join(", "), row.meaning];
}

function endReasonRows(): readonly (readonly string[])[] {
  return entries(END_REASONS).map(
    ([reason, { outcome, meaning }]: readonly [EndReason, (typeof END_REASONS)[EndReason]]) => [
      code(reason),
      code(outcome),
      meaning,
    ],
  );
}

function reasonRow([reason, row]: readonly [ErrorReason, (typeof REASONS)[ErrorReason]]): readonly string[] {
  const failed = toFailedCall(new EngineError(reason, ""));
  const { error, retriable } = fromGrpc(Object.assign(new Error(""), failed), true);
  const fault = NODE_FAULTS.has(reason) ? "yes" : "";
  return [code(reason), code(status[row.status] ?? ""), fault, code(error.detail), retriable ? "yes" : "", row.meaning];
}

/** Returns the entries of a table with the type of its keys, which `Object.entries` widens. */
function entries<Key extends string, Row>(rows: Readonly<Record<Key, Row>>): readonly (readonly [Key, Row])[] {
  return Object.entries(rows) as [Key, Row][];
}
