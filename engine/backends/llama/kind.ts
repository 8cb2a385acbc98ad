import { existsSync } from "node:fs";
import { ConfigError } from "../../../deploy/runtime/config/load-config.ts";
import type { BackendKind } from "../backend-kind.ts";
import { llamaSchema } from "./llama-options.ts";

/** The kind of backend that runs llama.cpp in the node's own process: `kind: llama` in the configuration. */
export const llama: BackendKind<typeof llamaSchema> = {
  schema: llamaSchema,
  async create(config, node, work) {
    if (!existsSync(config.modelPath)) throw new ConfigError(`backend.modelPath: there is no file ${config.modelPath}`);
    // Only a node that runs llama.cpp itself loads the module, and with it the optional dependency.
    const { LlamaBackend } = await import("./llama-backend.ts");
    return new LlamaBackend({ ...config, ...node }, work);
  },
};
