import type { Catalog, CatalogModel } from "../catalog.ts";
import { mayUse, type Principal } from "../keys/principal.ts";
import type { ClusterManager } from "../upstream/cluster-manager.ts";
import type { DescribedModel } from "../upstream/described-model.ts";

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
    return this.catalog.models.filter(({ id }) => mayUse(principal, id) && this.#clusters.cluster(id));
  }

  /** Returns the nodes' description of a model; undefined until a node has described it. */
  described(model: string): DescribedModel | undefined {
    return this.#clusters.cluster(model)?.described;
  }
}
