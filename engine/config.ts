import * as z from "zod";
import { file, listenSchema, logSchema } from "../deploy/runtime/config/process-schema.ts";
import { tracingSchema } from "../deploy/runtime/tracing/tracing-schema.ts";
import type { Backend, ServedNode } from "./backend.ts";
import { llama } from "./backends/llama/kind.ts";
import { openAiCompatible } from "./backends/openai-compatible/kind.ts";
import { scripted } from "./backends/scripted/kind.ts";
import type { CallerWork } from "./caller-work/caller-work.ts";

const tls = z
  .strictObject({
    certFile: file("Path of a PEM file with the certificate that the node shows to callers, and its chain."),
    keyFile: file("Path of a PEM file with the private key of certFile, which only its owner and group may read."),
    clientCaFile: file(
      "Path of a PEM file with authorities, one of which must have signed the certificate of every caller; without it, callers show none.",
    ).optional(),
    allowedClientNames: z
      .array(z.string().min(1).max(255))
      .min(1)
      .optional()
      .describe(
        "Names of which a caller's certificate must hold one, as common name or alternative name of DNS or URI; without it, any name.",
      ),
  })
  .refine(({ allowedClientNames, clientCaFile }) => allowedClientNames === undefined || clientCaFile !== undefined, {
    path: ["allowedClientNames"],
    error: "needs clientCaFile: without it callers show no certificate",
  });

export const engineConfigSchema = z.strictObject({
  nodeId: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/)
    .default("engine")
    .describe("The node's name in logs, traces and answers to DescribeNode."),
  models: z
    .array(z.string().min(1).max(64))
    .min(1)
    .describe("The model ids under which the node serves its checkpoint."),
  listen: listenSchema(50_051).describe("Where the node listens for gRPC calls."),
  metrics: listenSchema(9464).describe(
    "Where metrics are served to Prometheus, and `/healthz`, `/readyz` and `/livez/engine` to probes, over HTTP.",
  ),
  reflection: z
    .boolean()
    .default(false)
    .describe("Whether tools may ask the node for its contract over gRPC server reflection."),
  tls: tls.optional().describe("How the gRPC port is secured; without this section the node speaks plain text."),
  tracing: tracingSchema.optional(),
  maxStepAgeMs: z
    .int()
    .min(100)
    .default(30_000)
    .describe(
      "Milliseconds without a step of the engine after which a node that has running work takes itself out of service. After ten times as long `/livez/engine` answers 503, so that the engine is restarted.",
    ),
  drainTimeoutMs: z
    .int()
    .min(0)
    .default(600_000)
    .describe("Milliseconds for which running generations may go on after SIGTERM."),
  handoverGraceMs: z
    .int()
    .min(0)
    .default(2_000)
    .describe(
      "Milliseconds that generations which another node can continue still run after SIGTERM or DrainNode; then they end with DRAINING and continue elsewhere. All others have drainTimeoutMs. Where a model has one node alone, a grace above the longest answer lets answers end.",
    ),
  log: logSchema,
  backend: z
    .discriminatedUnion("kind", [llama.schema, scripted.schema, openAiCompatible.schema])
    .describe("The engine that the node runs, or that runs beside it."),
});

export type EngineConfig = z.infer<typeof engineConfigSchema>;

/** Creates the configured backend, which has not been started. Throws `ConfigError` for what the schema cannot check. */
export function createBackend(
  backend: EngineConfig["backend"],
  node: ServedNode,
  work: CallerWork,
): Backend | Promise<Backend> {
  switch (backend.kind) {
    case "llama":
      return llama.create(backend, node, work);
    case "scripted":
      return scripted.create(backend, node, work);
    case "openai-compatible":
      return openAiCompatible.create(backend, node, work);
  }
}
