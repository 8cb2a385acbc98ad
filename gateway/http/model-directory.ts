import type { Catalog, CatalogModel } from "../catalog.ts";
import { mayUse, type Principal } from "../keys/principal.ts";
import type { ClusterManager } from "../upstream/cluster-manager.ts";
import type { DescribedModel } from "../upstream/described-model.ts";

/** Knows which models callers can use, and what the nodes say of them. */
export class ModelDirectory {
  /** The models of the service. */
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

  /** Returns what the nodes of a model say of it; undefined as long as none has said anything. */
  described(model: string): DescribedModel | undefined {
    return this.#clusters.cluster(model)?.described;
  }
}
