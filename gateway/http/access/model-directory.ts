import type { Catalog, CatalogModel } from "../../catalog.ts";
import { ApiError } from "../../errors.ts";
import { mayUse, type Principal } from "../../keys/principal.ts";
import type { ClusterManager } from "../../upstream/cluster/cluster-manager.ts";
import type { DescribedModel } from "../../upstream/cluster/described-model.ts";

/** The models that callers can use, and their descriptions by nodes. */
export class ModelDirectory {
  readonly catalog: Catalog;
  readonly #clusters: ClusterManager;

  constructor(catalog: Catalog, clusters: ClusterManager) {
    this.catalog = catalog;
    this.#clusters = clusters;
  }

  /** Returns the models that a caller can use now: those of its key that have a cluster. */
  usable(principal: Principal): readonly CatalogModel[] {
    const usable: CatalogModel[] = [];
    for (const model of this.catalog.models)
      if (mayUse(principal, model.id) && this.#clusters.cluster(model.id)) usable.push(model);
    return usable;
  }

  /**
   * Throws ApiError `model_not_found` for a model that the key may not use, or that no cluster of this gateway serves,
   * with the same text as for one that does not exist, so that the models of other callers are not revealed.
   */
  require(principal: Principal, model: string): void {
    if (!mayUse(principal, model) || !this.#clusters.cluster(model)) throw modelNotFound(model);
  }

  /** Returns the nodes' description of a model; undefined until a node has described it. */
  described(model: string): DescribedModel | undefined {
    return this.#clusters.cluster(model)?.described;
  }
}

/** The error for a model that does not exist, named only if it has the form of a model id. */
export function modelNotFound(model: string): ApiError {
  const shown = /^[A-Za-z0-9._/-]{1,64}$/.test(model) ? model : "?";
  return new ApiError(
    "model_not_found",
    { a: `The model '${shown}' does not exist or you do not have access to it.`, b: `model: ${shown}` },
    { path: ["model"] },
  );
}
