import {
  type ClosedRequest,
  NO_ROUTE,
  RequestRecord,
  routeLabels,
} from "../../../gateway/http/record/request-record.ts";
import { traceContextOf } from "../../../gateway/http/record/trace-context.ts";
import { routeAt } from "../../../gateway/routes.ts";
import { VirtualClock } from "../virtual-clock.ts";

/** Makes a record of a request for `path`, untraced by default. */
export function newRecord({
  path = "/v1/messages",
  clock = new VirtualClock(),
  trace = traceContextOf({}),
  traced = false,
} = {}) {
  const spec = routeAt(path);
  const tracing = traced ? { headSampler: () => false } : undefined;
  return new RequestRecord({ labels: spec ? routeLabels(spec) : NO_ROUTE, trace, clock, tracing });
}

/** Makes a request that was answered with 200, 100 ms after its arrival, with the changes of `fields`. */
export function closedRequest(fields: Partial<ClosedRequest> = {}, record = newRecord()): ClosedRequest {
  return { ...record.closed(200, true), totalMs: 100, ...fields };
}
