import type { FastifyRequest } from "fastify";
import { CATALOG, CATALOG_CREATED_SECONDS, type CatalogModel, findModel } from "../../catalog.ts";
import { mayUse } from "../../keys/principal.ts";
import { modelNotFound } from "../access/model-access.ts";
import { principalOf } from "../request-context.ts";

/**
 * Returns a model as callers see it. Beside the four fields that chat clients know stand those that other SDKs read
 * from the same path.
 */
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

/** Answers GET /v1/models with the models of the catalog that the key may use. */
export async function listModels(request: FastifyRequest): Promise<object> {
  const principal = principalOf(request);
  const data = CATALOG.filter((model) => mayUse(principal, model.id)).map(present);
  return { object: "list", data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
}

/**
 * Answers GET /v1/models/{model}. Throws ApiError `model_not_found` for a model that the key may not use, as for any
 * other.
 */
export async function getModel(request: FastifyRequest): Promise<object> {
  const id = String(Reflect.get(Object(request.params), "*"));
  const model = findModel(id);
  if (!model || !mayUse(principalOf(request), model.id)) throw modelNotFound(id);
  return present(model);
}
