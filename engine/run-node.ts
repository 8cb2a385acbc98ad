import type * as z from "zod";
import { runConfigured } from "../deploy/runtime/process/run-main.ts";
import { EngineError } from "./errors.ts";
import { GONE_KEYS } from "./gone-keys.ts";
import type { CreateBackend, NodeConfig } from "./serve-node.ts";

/** The backends of a program: the schema of its configuration, and how one is made. */
export type Backends<Config extends NodeConfig> = {
  readonly schema: z.ZodType<Config>;
  readonly createBackend: CreateBackend<Config>;
};

/**
 * Runs a node until a stop signal, then exits the process: native threads must not keep it alive. The backends are loaded
 * once the command line is good.
 */
export async function runNode<Config extends NodeConfig>(backends: () => Promise<Backends<Config>>): Promise<never> {
  process.exitCode = await runConfigured({
    name: "engine",
    description: "One engine node: gRPC in front of one model.",
    schema: async () => (await backends()).schema,
    gone: GONE_KEYS,
    run: async (config) => {
      const [{ serveNode }, { createBackend }] = await Promise.all([import("./serve-node.ts"), backends()]);
      return serveNode(config, createBackend);
    },
    exitCodeOf: (error) => (error instanceof EngineError ? 1 : undefined),
  });
  process.exit();
}
