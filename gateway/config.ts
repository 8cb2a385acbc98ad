import * as z from "zod";
import { listenerTlsSchema, listenFields, logSchema } from "../deploy/runtime/config/process-schema.ts";
import { tracingSchema } from "../deploy/runtime/tracing/tracing-schema.ts";
import { CATALOG, type Catalog } from "./catalog.ts";
import { adminSchema, healthSchema } from "./http/admin/admin-settings.ts";
import { keysSchema, tokensSchema } from "./keys/key-settings.ts";
import { overloadSchema } from "./overload/overload-settings.ts";
import { stateSchema } from "./state/state-settings.ts";
import { timeoutsSchema } from "./upstream/call/timeouts.ts";
import { clustersSchema } from "./upstream/cluster/cluster-settings.ts";
import { continuationSchema } from "./upstream/continuation/continuation-budget.ts";
import { upstreamSchema } from "./upstream/wire/generate-wire.ts";

/*
 * The configuration of one gateway: a YAML file, checked strictly. Names carry their units, and are Envoy's where Envoy
 * has the setting. The schema of a setting stands in the room that uses it, beside the code or in its
 * `<thing>-settings.ts`; its type is inferred and its default is in the schema only. Settings of several rooms stand
 * here.
 */

/** Form of model names, which appear in paths, logs and labels of statistics. */
export const modelNameSchema = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "expected 1 to 64 letters, digits, dots, hyphens and underscores");

const catalogSchema = z
  .strictObject({
    models: z
      .array(
        z.strictObject({
          id: modelNameSchema.describe("Id of the model for callers, keys and clusters."),
          contextWindow: z
            .int()
            .min(1)
            .describe("The most tokens of prompt and answer together, until a node has reported its own limit."),
          displayName: z.string().min(1).max(128).describe("Display name of the model."),
        }),
      )
      .min(1)
      .default([...CATALOG])
      .describe("Models, in the order in which callers see them."),
    aliases: z
      .record(modelNameSchema, modelNameSchema)
      .default({})
      .describe(
        "Aliases of models, each with the id of its model; answers, statistics and the limits of keys use the id.",
      ),
  })
  .superRefine(({ models, aliases }, context) => {
    const ids = new Set<string>();
    for (const [index, { id }] of models.entries()) {
      if (ids.has(id)) refuse(context, ["models", index, "id"], `${id} is in the catalog already`);
      ids.add(id);
    }
    for (const [alias, id] of Object.entries(aliases)) {
      if (ids.has(alias)) refuse(context, ["aliases", alias], "this is the id of a model");
      else if (!ids.has(id)) refuse(context, ["aliases", alias], `${id} is no model of the catalog`);
    }
  })
  .prefault({})
  .describe("Models that callers may request.");

function refuse(context: z.RefinementCtx, path: (string | number)[], message: string): void {
  context.addIssue({ code: "custom", path, message });
}

/** Refuses clusters of models that no caller can request: their names are mistakes. */
function refuseUnlisted(
  { catalog, clusters }: { readonly catalog: Catalog; readonly clusters: readonly { readonly model: string }[] },
  context: z.RefinementCtx,
): void {
  for (const [index, { model }] of clusters.entries())
    if (!catalog.models.some(({ id }) => id === model))
      refuse(context, ["clusters", index, "model"], `${model} is no model of the catalog`);
}

/** Returns whether Node of this `process.versions.node` can listen on a port beside another process. */
export function reusesPorts(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > 23 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12);
}

/** The keys of the configuration, each validated independently. */
const gatewayKeys = z.strictObject({
  listen: z
    .strictObject({
      ...listenFields(8080),
      tls: listenerTlsSchema,
      allowOrigins: z
        .array(
          z
            .string()
            .regex(/^(\*|[a-z][a-z0-9+.-]*:\/\/[^\s/?#]+)$/, "expected an origin such as http://localhost:5173"),
        )
        .default([])
        .describe(
          "Origins whose pages may call the API from a browser (CORS), such as `http://localhost:5173` or `app://obsidian.md`; `*` allows all. A key is required in any case.",
        ),
      enableReusePort: z
        .boolean()
        .default(false)
        .refine((wanted) => !wanted || reusesPorts(process.versions.node), "needs Node 22.12, 23.1 or later")
        .describe(
          "Whether a second process of the same user may listen on the port beside this one, to replace it: it listens once a model can be served, or after 10 s. Linux and FreeBSD, Node 22.12, 23.1 or later.",
        ),
    })
    .prefault({})
    .describe("Listener of the public API."),
  admin: adminSchema,
  health: healthSchema,
  grpc: z
    .strictObject({
      ...listenFields(50_050),
      tls: listenerTlsSchema,
      reflection: z
        .boolean()
        .default(true)
        .describe("Whether callers may read the contract by gRPC server reflection, which needs no key."),
    })
    .optional()
    .describe(
      "Listener of `svc.inference.v1.InferenceService` for internal gRPC clients, with the keys and limits of the public API; without this section there is none.",
    ),
  keys: keysSchema,
  sealingKeyFile: z
    .string()
    .min(1)
    .optional()
    .describe(
      "Path of the sealing keys that all gateways share (`npm run keys -- sealing-key`); without it, reasoning and compactions of before a restart or of another gateway do not open.",
    ),
  maxBodyBytes: z
    .int()
    .min(1024)
    .default(33_554_432)
    .describe("The size, in bytes, above which request bodies are refused with 413."),
  formats: z
    .strictObject({
      strictAlternation: z
        .boolean()
        .default(false)
        .describe("Whether Format B refuses consecutive messages of one role instead of merging them."),
      unreadableContent: z
        .enum(["reject", "placeholder"])
        .default("reject")
        .describe(
          "Images and files in the user's last message that the model does not accept: refused with 400, or replaced by a text, as elsewhere always.",
        ),
      brokenStream: z
        .enum(["cut", "error"])
        .default("cut")
        .describe(
          "End of a stream of chat or messages that lost its engine or gateway: its connection is closed, after which agents retry, or the format's error frame is sent.",
        ),
      leftOutTools: z
        .enum(["restore", "omit"])
        .default("restore")
        .describe(
          "Tools that a request leaves out of its conversation, as agents do to compact it: put back, but forbidden, so that engines find their cache, or omitted. They are kept in memory for 10 minutes, at most 32 MiB.",
        ),
      messages: z
        .strictObject({
          systemRole: z
            .enum(["reject", "merge"])
            .default("reject")
            .describe(
              "How messages with the role `system` in Format B are handled: refused with 400, or accepted as system text at their position.",
            ),
        })
        .prefault({})
        .describe("Tolerances of Format B."),
      responses: z
        .strictObject({
          unsupportedTools: z
            .enum(["reject", "skip"])
            .default("reject")
            .describe("How hosted tools in Responses, and their items, are handled: refused with 400, or omitted."),
        })
        .prefault({})
        .describe("Tolerances of the Responses format."),
    })
    .prefault({})
    .describe("Tolerances of the formats beyond their specifications."),
  auth: z
    .strictObject({
      jwt: tokensSchema.optional(),
    })
    .prefault({})
    .describe("Tokens accepted besides keys."),
  xffNumTrustedHops: z
    .int()
    .min(0)
    .max(10)
    .default(0)
    .describe(
      "Number of proxies in front that append to x-forwarded-for; at 0 the header is ignored, and the address of the connection is used.",
    ),
  tryIt: z
    .strictObject({
      hosts: z
        .array(z.string().min(1).toLowerCase())
        .default([])
        .describe(
          "Host names, without a port, under which browsers may open the page, besides IP addresses and `localhost`: a foreign name pointed at this address could read the user's input.",
        ),
    })
    .optional()
    .describe(
      "Page at `/` of the public API to try the API with a pasted key; without this section there is none. `npm start` has it.",
    ),
  cacheHeader: z
    .boolean()
    .default(false)
    .describe(
      "Whether replies carry `x-svc-cache`: the expected, cached and lost tokens of the prompt in the engine's cache, and the reason for the loss.",
    ),
  overloadManager: overloadSchema,
  timeouts: timeoutsSchema,
  catalog: catalogSchema,
  clusters: clustersSchema,
  state: stateSchema,
  upstream: upstreamSchema,
  continuation: continuationSchema,
  tracing: tracingSchema.optional(),
  drainGraceMs: z
    .int()
    .min(0)
    .default(15_000)
    .describe(
      "Milliseconds for which a gateway still accepts connections after SIGTERM or POST /drain_listeners?graceful, while /ready fails; longer than the proxy's health checks take.",
    ),
  drainTimeoutMs: z
    .int()
    .min(0)
    .default(600_000)
    .describe("Milliseconds for which running answers may continue after drainGraceMs."),
  log: logSchema,
});

/** A rule over these sections holds where they are valid, whatever else is not: all faults are said at once. */
function over(...sections: readonly string[]): z.core.$ZodCustomParams {
  return { when: ({ issues }) => issues.every(({ path }) => !sections.includes(String(path?.[0]))) };
}

export const gatewayConfigSchema = gatewayKeys.superRefine(refuseUnlisted, over("catalog", "clusters")).superRefine(
  ({ keys, state }, context) => {
    if (keys.redis && !state.redis)
      refuse(context, ["keys", "redis"], "state.redis is required, with the address of the store");
  },
  over("keys", "state"),
);

export type GatewayConfig = z.infer<typeof gatewayConfigSchema>;
