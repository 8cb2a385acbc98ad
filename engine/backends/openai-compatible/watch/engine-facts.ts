import { EngineError } from "../../../errors.ts";
import type { EngineDialect } from "../engines/engine-dialect.ts";
import type { EngineHttp } from "../http/engine-http.ts";
import { asCount, asFields, asList, asText, parseFields } from "../http/json-fields.ts";

export type EngineFacts = {
  readonly servedModel: string;
  /** The context window in tokens, prompt and answer together; 0 if not reported. */
  readonly contextWindow: number;
  /** The engine's version; empty if not reported. */
  readonly version: string;
  /** The engine's slots, which hold a conversation each; 0 for an engine whose cache is one pool. */
  readonly slots: number;
  /** Name, version and window: nodes beside engines that report the same are taken to have the same weights. */
  readonly weights: string;
};

const TIMEOUT_MS = 10_000;

/** `wanted` is the model to serve, by default the first. Throws `EngineError` ENGINE_DOWN if it is not served. */
export async function readEngineFacts(
  http: EngineHttp,
  dialect: EngineDialect,
  wanted: string | undefined,
  signal: AbortSignal,
): Promise<EngineFacts> {
  const get = async (path: string) => {
    const { status, text } = await http.fetch({ path, timeoutMs: TIMEOUT_MS }, signal);
    return status === 200 ? parseFields(text) : undefined;
  };
  const listed = asList(asFields(await get(dialect.paths.models)).data).map(asFields);
  const model = wanted === undefined ? listed[0] : listed.find((entry) => entry.id === wanted);
  const servedModel = asText(model?.id);
  if (!model || servedModel === "")
    throw new EngineError("ENGINE_DOWN", "The engine does not list the model to serve.");
  let about = {};
  for (const path of dialect.paths.about) {
    const found = await get(path);
    if (found) {
      about = found;
      break;
    }
  }
  const { version, build_info: build, default_generation_settings: defaults, total_slots: slots } = asFields(about);
  const slotWindow = asCount(asFields(defaults).n_ctx);
  const contextWindow = slotWindow ?? asCount(model.max_model_len) ?? asCount(asFields(model.meta).n_ctx_train) ?? 0;
  const engineVersion = asText(version) || asText(build);
  return {
    servedModel,
    contextWindow,
    version: engineVersion,
    slots: asCount(slots) ?? 0,
    weights: JSON.stringify([dialect.name, servedModel, asText(model.root), engineVersion, contextWindow]),
  };
}
