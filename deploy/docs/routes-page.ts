import { ROUTES } from "../../gateway/routes.ts";
import { LB_POLICIES, POLICIES } from "../../gateway/upstream/load-balancing/policies.ts";
import { code, page, table } from "./markdown.ts";

/** Writes the page of all routes of the public API, and of all load-balancing policies. */
export function routesPage(): string {
  return page(
    "Routes and load-balancing policies",
    "`gateway/routes.ts` and `gateway/upstream/load-balancing/policies.ts`",
    [
      "## Routes",
      [
        "*Costs*: `generation` counts against all limits of a key, `count` against its token counts per minute, `none` needs a",
        "key and counts against nothing, `open` needs no key. Envelopes are those of `gateway/formats/README.md`; *once* are",
        "the keys that the body may hold one time only.",
      ].join("\n"),
      table(
        ["path", "methods", "envelope", "operation", "costs", "format", "once"],
        ROUTES.map((route) => [
          code(route.path),
          route.methods.join(", "),
          route.envelope.toUpperCase(),
          code(route.operation),
          code(route.use),
          route.format?.name ?? "",
          (route.singleKeys ?? []).map(code).join(", "),
        ]),
      ),
      "## Load-balancing policies",
      "`clusters[].lbPolicy`.",
      table(
        ["policy", "how it picks"],
        LB_POLICIES.map((name) => [code(name), POLICIES[name].summary]),
      ),
    ],
  );
}
