import { status } from "@grpc/grpc-js";
import { EngineError, type ErrorReason, NODE_FAULTS, REASONS, toFailedCall } from "../../engine/errors.ts";
import type { ErrorCode } from "../../gateway/errors.ts";
import { ERROR_ANSWERS, type ErrorAnswer } from "../../gateway/formats/error-envelope.ts";
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

export function outcomesPage(): string {
  return page("Errors and outcomes", "`gateway/outcome.ts` and `gateway/formats/error-envelope.ts`", [
    [
      "A request that fails has an error code, which the caller is told, and a detail token, which says what happened: it",
      "stands in the log line as `detail`, as Envoy's response code details do. The engine's reasons, one step further",
      "down, are in [engine/docs/errors.md](../../engine/docs/errors.md).",
    ].join("\n"),
    "## Error codes",
    [
      "`error.code` of chat, models and responses. Messages has no codes: its clients see the type alone. Every code is",
      "a detail token too, for errors that need to say no more.",
    ].join("\n"),
    table(
      ["code", "status", "`error.type`", "Messages: status", "`error.type`", "meaning"],
      entries(ERROR_ANSWERS).map(codeRow),
    ),
    "## Detail tokens",
    [
      "Flags and end reasons are explained below. *Counted by*: the counter that such a request, or a call to an endpoint",
      "that failed so, adds to beside `svc_http_requests_total` and `svc_stream_end_total`. *Cost*: what the request costs",
      "its key. `nothing`: the service had no room, was not ready or had to stop. `request`: it counts as a request, without",
      "tokens. `work`: an engine had it in its hands, so that it counts as a request and so do its tokens; rates per minute",
      "keep the input that the engine counted, or the estimate where it did not come that far, and the quota of a day keeps",
      "only what was counted. A request whose tries failed in several ways costs the most that one of them does; one whose",
      "deltas have reached the caller is charged for these, whatever ended it.",
    ].join("\n"),
    table(["token", "flag", "end reason", "cost", "counted by", "meaning"], entries(OUTCOMES).map(detailRow)),
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

function codeRow([name, answer]: readonly [ErrorCode, ErrorAnswer]): readonly string[] {
  const shown = answer.aCode ? `${code(name)}, sent as ${code(answer.aCode)}` : code(name);
  const statusB = String(answer.bStatus ?? answer.status);
  return [shown, String(answer.status), code(answer.a), statusB, code(answer.b), OUTCOMES[name].meaning];
}

function detailRow([token, row]: readonly [Detail, OutcomeRow]): readonly string[] {
  const counters = [
    row.tryStat && code(`svc_cluster_upstream_rq_${row.tryStat}_total`),
    row.dim && code(`svc_ratelimit_decisions_total{dim="${row.dim}"}`),
  ];
  const counted = counters.filter((counter) => counter !== undefined).join(", ");
  return [code(token), code(row.flag ?? ""), code(row.end ?? "error"), costOf([token]), counted, row.meaning];
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
