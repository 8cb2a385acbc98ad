import type { FastifyInstance } from "fastify";
import { CATALOG, CATALOG_CREATED_SECONDS, type CatalogModel, findModel } from "../../catalog.ts";
import { mayUse } from "../../keys/principal.ts";
import { modelNotFound } from "../access/model-access.ts";
import { principalOf } from "../request-context.ts";

/** Beside the four fields of the specification stand what other SDKs read from the same path. */
function present(model: CatalogModel) {
  return {
    id: model.id,
    object: "model",
    created: CATALOG_CREATED_SECONDS,
    owned_by: "svc",
    type: "model",
    display_name: model.displayName,
    created_at: new Date(CATALOG_CREATED_SECONDS * 1000).toISOString(),
    context_window: model.contextWindow,
    max_model_len: model.contextWindow,
  };
}

export function modelsRoutes(app: FastifyInstance): void {
  app.get("/v1/models", async (request) => {
    const principal = principalOf(request);
    const data = CATALOG.filter((model) => mayUse(principal, model.id)).map(present);
    return { object: "list", data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
  });
  // A wildcard, as ids with a slash are one path segment to their senders.
  app.get<{ Params: { "*": string } }>("/v1/models/*", async (request) => {
    const id = request.params["*"];
    const model = findModel(id);
    if (!model || !mayUse(principalOf(request), model.id)) throw modelNotFound(id);
    return present(model);
  });
}
