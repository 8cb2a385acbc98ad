import { EngineError } from "../../../errors.ts";

export type LlamaLibrary = typeof import("node-llama-cpp");

/** Throws `EngineError` ENGINE_DOWN if the optional dependency is not installed. */
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
