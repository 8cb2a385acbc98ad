import type { RouteSpec } from "../../routes.ts";

/** What log and statistics call a route. */
export type RouteLabels = {
  /** The pattern of the path, never the path itself; `unknown` where no route has it. */
  readonly route: string;
  /** The name of the route's format, or `none`. */
  readonly format: string;
  /** What is done on the route: the `gen_ai.operation.name` of its statistics; `none` where no route has the path. */
  readonly operation: string;
};

const UNKNOWN: RouteLabels = { route: "unknown", format: "none", operation: "none" };

/** The labels of requests on a route; undefined stands for paths that no route has. */
export function routeLabels(spec: RouteSpec | undefined): RouteLabels {
  if (!spec) return UNKNOWN;
  return { route: spec.path, format: spec.format?.name ?? "none", operation: spec.operation };
}
