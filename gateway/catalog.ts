/** A model of the fixed catalog: what its id promises, whoever serves it. */
export type CatalogModel = {
  /** The id by which callers name the model. */
  readonly id: string;
  /** The most tokens that prompt and answer may have together. */
  readonly contextWindow: number;
  /** The name of the model for people. */
  readonly displayName: string;
};

/**
 * The time at which every model says it was made, in seconds since the epoch: 2025-11-20T00:00:00Z. It is constant, as
 * clients compare it between calls.
 */
export const CATALOG_CREATED_SECONDS = 1_763_596_800;

/** All models of the service, in the order in which callers see them. */
export const CATALOG: readonly CatalogModel[] = [
  { id: "svc-glm53", contextWindow: 1_048_576, displayName: "GLM 5.3" },
  { id: "svc-kimik3", contextWindow: 1_048_576, displayName: "Kimi K3" },
  { id: "svc-qwen", contextWindow: 262_144, displayName: "Qwen" },
  { id: "svc-minimax", contextWindow: 1_048_576, displayName: "MiniMax" },
  { id: "svc-dsv4flash", contextWindow: 1_048_576, displayName: "DeepSeek V4 Flash" },
];

const BY_ID: ReadonlyMap<string, CatalogModel> = new Map(CATALOG.map((model) => [model.id, model]));

/** Returns the model with this id; undefined where the catalog has none. */
export function findModel(id: string): CatalogModel | undefined {
  return BY_ID.get(id);
}
