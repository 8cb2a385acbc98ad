import { EngineError } from "../../../errors.ts";

/** The package node-llama-cpp, once it is loaded. */
export type LlamaLibrary = typeof import("node-llama-cpp");

/**
 * Loads the optional dependency node-llama-cpp. Nothing else of the service needs it, so it is loaded only here and
 * only when asked for. Throws `EngineError` ENGINE_DOWN when it is not installed.
 */
export async function loadLibrary(): Promise<LlamaLibrary> {
  try {
    return await import("node-llama-cpp");
  } catch (cause) {
    throw new EngineError(
      "ENGINE_DOWN",
      "The package node-llama-cpp could not be loaded. Install the project without leaving out optional dependencies.",
      {},
      cause,
    );
  }
}
