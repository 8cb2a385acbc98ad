import { open } from "node:fs/promises";
import { ConfigError } from "../../../deploy/runtime/config/load-config.ts";
import { errnoOf } from "../../../deploy/runtime/files/private-file.ts";
import type { BackendKind } from "../../backend.ts";
import { llamaSchema, QUEUE_BOUNDS } from "./runtime/llama-options.ts";

export const llama: BackendKind<typeof llamaSchema> = {
  schema: llamaSchema,
  async create(config, node, work) {
    await assertGguf(config.modelPath);
    // Loaded on demand, with the optional dependency that it imports.
    const { LlamaBackend } = await import("./llama-backend.ts");
    return new LlamaBackend({ ...QUEUE_BOUNDS, ...config, ...node }, work);
  },
};

const MAGIC = "GGUF";

/** Throws `ConfigError` if there is no GGUF file at `path`. llama.cpp checks the rest of the file. */
async function assertGguf(path: string): Promise<void> {
  const head = Buffer.alloc(MAGIC.length);
  try {
    const file = await open(path);
    await file.read(head).finally(() => file.close());
  } catch (cause) {
    const errno = errnoOf(cause);
    const why = errno === "ENOENT" ? `there is no file ${path}` : `${path} cannot be read (${errno})`;
    throw new ConfigError(`backend.modelPath: ${why}`, { cause });
  }
  if (head.toString("latin1") !== MAGIC) throw new ConfigError(`backend.modelPath: ${path} is no GGUF file`);
}
