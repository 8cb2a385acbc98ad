/** A model of the catalog: what its id promises, whoever serves it. */
export type CatalogModel = {
  /** The id by which callers name the model. */
  readonly id: string;
  /** The most tokens that prompt and answer may have together, as told until a node was there to say it. */
  readonly contextWindow: number;
  /** The name of the model for people. */
  readonly displayName: string;
};

/**
 * The time at which every model says it was made, in seconds since the epoch: 2025-11-20T00:00:00Z. It is constant, as
 * clients compare it between calls.
 */
export const CATALOG_CREATED_SECONDS = 1_763_596_800;

/** The models that a service has by default, in the order in which callers see them. */
export const CATALOG: readonly CatalogModel[] = [
  { id: "svc-glm53", contextWindow: 1_048_576, displayName: "GLM 5.3" },
  { id: "svc-kimik3", contextWindow: 1_048_576, displayName: "Kimi K3" },
  { id: "svc-qwen", contextWindow: 262_144, displayName: "Qwen" },
  { id: "svc-minimax", contextWindow: 1_048_576, displayName: "MiniMax" },
  { id: "svc-dsv4flash", contextWindow: 1_048_576, displayName: "DeepSeek V4 Flash" },
];

/** The models of a service, and the other names that they go by. */
export type Catalog = {
  /** The models, in the order in which callers see them. */
  readonly models: readonly CatalogModel[];
  /** The id of a model by each further name under which callers may ask for it. */
  readonly aliases: Readonly<Record<string, string>>;
};

/** The catalog that a service has by default: five models, and no other names. */
export const DEFAULT_CATALOG: Catalog = { models: CATALOG, aliases: {} };

/** Returns the model with this id, or this further name; undefined where the catalog has none. */
export function findModel(name: string, { models, aliases }: Catalog = DEFAULT_CATALOG): CatalogModel | undefined {
  const id = Object.hasOwn(aliases, name) ? aliases[name] : name;
  return models.find((model) => model.id === id);
}
