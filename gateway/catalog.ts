export type CatalogModel = {
  readonly id: string;
  /** Most tokens of prompt and answer together, until a node has described the model. */
  readonly contextWindow: number;
  readonly displayName: string;
};

/**
 * Creation time of every model in replies, in seconds since the epoch: 2025-11-20T00:00:00Z. Constant, because clients
 * compare it between calls.
 */
export const CATALOG_CREATED_SECONDS = 1_763_596_800;

/** The default models, in the order in which callers see them. */
export const CATALOG: readonly CatalogModel[] = [
  { id: "svc-glm53", contextWindow: 1_048_576, displayName: "GLM 5.3" },
  { id: "svc-kimik3", contextWindow: 1_048_576, displayName: "Kimi K3" },
  { id: "svc-qwen", contextWindow: 262_144, displayName: "Qwen" },
  { id: "svc-minimax", contextWindow: 1_048_576, displayName: "MiniMax" },
  { id: "svc-dsv4flash", contextWindow: 1_048_576, displayName: "DeepSeek V4 Flash" },
];

export type Catalog = {
  readonly models: readonly CatalogModel[];
  /** Model ids by alias. */
  readonly aliases: Readonly<Record<string, string>>;
};

export const DEFAULT_CATALOG: Catalog = { models: CATALOG, aliases: {} };

/** Returns the model with this id or alias; undefined if the catalog has none. */
export function findModel(name: string, { models, aliases }: Catalog = DEFAULT_CATALOG): CatalogModel | undefined {
  const id = Object.hasOwn(aliases, name) ? aliases[name] : name;
  for (const model of models) if (model.id === id) return model;
  return undefined;
}
