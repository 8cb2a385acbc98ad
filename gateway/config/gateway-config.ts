import * as z from "zod";
import { listenSchema, logSchema } from "../../deploy/runtime/config/process-schema.ts";
import { tracingSchema } from "../../deploy/runtime/tracing/tracing-schema.ts";
import { clustersSchema } from "./cluster-schema.ts";
import { overloadSchema } from "./overload-schema.ts";
import { retrySchema } from "./retry-schema.ts";
import { timeoutsSchema } from "./timeouts-schema.ts";

/*
 * The configuration of one gateway: a YAML file, checked strictly. Defaults stand in the schema and nowhere else; names
 * carry their units, and are Envoy's where Envoy has the thing. Larger parts have a file of their own in config/.
 */

/** The limits themselves stand in the records of the keys; a key without one has none. */
const limits = z
  .strictObject({
    headerPrefix: z
      .string()
      .regex(/^[a-z][a-z0-9-]{0,31}$/, "expected lower-case letters, digits and hyphens")
      .default("anthropic")
      .describe("Format B: the word before -ratelimit- in header names; clients know the default."),
    requestBurstSeconds: z
      .int()
      .min(1)
      .max(60)
      .default(10)
      .describe("A rested key may send at once what its requests per minute allow in this time; at least 1 request."),
    tokenBurstSeconds: z.int().min(1).max(60).default(60).describe("The same for tokens."),
    cachedInputWeight: z
      .number()
      .min(0)
      .max(1)
      .default(0)
      .describe("What an input token read from the cache counts against input tokens per minute."),
  })
  .prefault({});

/** The schema of the gateway's whole configuration. */
export const gatewayConfigSchema = z.strictObject({
  listen: listenSchema(8080).describe("The public API."),
  admin: listenSchema(9901).describe("Health, metrics, control and a page to look at; never for the public."),
  worker: z
    .strictObject({
      index: z.int().min(1).describe("Of this one, from 1."),
      count: z.int().min(1).describe("In all."),
    })
    .optional()
    .describe("Written by npm start: one of several workers on one port, whose limits the starting process counts."),
  keys: z.strictObject({ file: z.string().min(1).describe("The key file, see `npm run keys`.") }),
  sealingKeyFile: z
    .string()
    .min(1)
    .optional()
    .describe(
      "32 random bytes that all gateways share; without it, reasoning sealed before a restart is not read back.",
    ),
  maxBodyBytes: z.int().min(1024).default(33_554_432).describe("Larger request bodies are refused with 413."),
  formats: z
    .strictObject({
      strictAlternation: z
        .boolean()
        .default(false)
        .describe("Format B: refuse consecutive turns of one role instead of merging them."),
      responses: z
        .strictObject({
          unsupportedTools: z
            .enum(["reject", "skip"])
            .default("reject")
            .describe("Responses: hosted tools are refused with 400, or left out."),
        })
        .prefault({}),
    })
    .prefault({}),
  limits,
  auth: z
    .strictObject({
      maxFailuresPerMinute: z
        .int()
        .min(1)
        .default(20)
        .describe(
          "Requests without a valid key from one address (IPv6: one /64); further ones cost a connection each.",
        ),
    })
    .prefault({}),
  xffNumTrustedHops: z
    .int()
    .min(0)
    .max(10)
    .default(0)
    .describe(
      "Proxies in front that add to x-forwarded-for; 0: the header means nothing, the connection's address counts.",
    ),
  overloadManager: overloadSchema,
  timeouts: timeoutsSchema,
  clusters: clustersSchema,
  retry: retrySchema,
  tracing: tracingSchema.optional(),
  drainGraceMs: z
    .int()
    .min(0)
    .default(5_000)
    .describe("How long connections are still taken after POST /drain_listeners?graceful."),
  drainTimeoutMs: z.int().min(0).default(600_000).describe("How long running answers may go on after SIGTERM."),
  log: logSchema,
});

export type GatewayConfig = z.infer<typeof gatewayConfigSchema>;
