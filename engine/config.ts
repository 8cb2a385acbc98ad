import * as z from "zod";
import { listenSchema, logSchema } from "../deploy/runtime/config/process-schema.ts";
import { tracingSchema } from "../deploy/runtime/tracing/tracing-schema.ts";
import { backendSchema } from "./backend-kinds.ts";

/*
 * The configuration of one engine node: a YAML file, checked strictly. Defaults stand in the schemas, here and with
 * each kind of backend, and nowhere else; names carry their units.
 */

const tls = z
  .strictObject({
    certFile: z.string().min(1).describe("The node's certificate and its chain, PEM."),
    keyFile: z.string().min(1).describe("Its private key, PEM."),
    clientCaFile: z
      .string()
      .min(1)
      .optional()
      .describe("With it, callers must show a certificate that one of these authorities has signed."),
    allowedClientNames: z
      .array(z.string().min(1).max(255))
      .min(1)
      .optional()
      .describe("With it, only certificates with one of these names: common name, or alternative name of DNS or URI."),
  })
  .refine(({ allowedClientNames, clientCaFile }) => allowedClientNames === undefined || clientCaFile !== undefined, {
    path: ["allowedClientNames"],
    error: "needs clientCaFile: without it callers show no certificate",
  });

/** The schema of an engine node's whole configuration. */
export const engineConfigSchema = z.strictObject({
  nodeId: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/)
    .default("engine")
    .describe("The node's name in logs, traces and answers to DescribeNode."),
  models: z.array(z.string().min(1).max(64)).min(1).describe("The model ids this checkpoint is served under."),
  listen: listenSchema(50_051).describe("gRPC."),
  metrics: listenSchema(9464).describe("Prometheus, over HTTP."),
  reflection: z.boolean().default(false).describe("Whether tools may ask the node for its contract."),
  tls: tls.optional().describe("For the gRPC port; without it the node speaks plain text."),
  tracing: tracingSchema.optional(),
  maxStepAgeMs: z
    .int()
    .min(100)
    .default(30_000)
    .describe("Running work that sees no step of the engine for so long takes the node out of service."),
  drainTimeoutMs: z.int().min(0).default(600_000).describe("How long running generations may go on after SIGTERM."),
  log: logSchema,
  backend: backendSchema,
});

/** The configuration of an engine node, checked, with its defaults. */
export type EngineConfig = z.infer<typeof engineConfigSchema>;
