import * as z from "zod";
import { file, listenSchema, logSchema } from "../runtime/config/process-schema.ts";

const key = (text: string) => file(`Path of a file with ${text}, readable by its owner and group only.`);

/** The configuration of the prober. A promise whose section is absent is not proven, and raises no alert. */
export const proberConfigSchema = z.strictObject({
  edge: z
    .strictObject({
      url: z.url({ protocol: /^https?$/ }).describe("The address of the service, as callers have it."),
      caFile: file("Path of a PEM file with the authorities of its certificate. Default: those of Node.").optional(),
      serverName: z.string().min(1).describe("The name in its certificate. Default: the host of `url`.").optional(),
    })
    .describe("Where callers reach the service."),
  model: z.string().min(1).max(64).describe("The model that is asked for."),
  keyFile: key("the prober's own key, made with --load-tests"),
  continuation: z.boolean().default(true).describe("Whether answers of the model can be continued: it has two nodes."),
  limit: z
    .strictObject({
      keyFile: key("a key that serves nothing else, with this limit"),
      rpm: z.int().min(3).max(100).describe("Its requests per minute: a prime, which gateways cannot share evenly."),
    })
    .optional(),
  revocation: z
    .strictObject({
      keyFile: key("a key that serves nothing else, which is enabled and disabled"),
      gatewayConfig: file("Path of a gateway's configuration, whose keys this process may change."),
    })
    .optional(),
  alertmanagerUrl: z
    .url({ protocol: /^https?$/ })
    .describe("The address of Alertmanager.")
    .optional(),
  metrics: listenSchema(9465).describe("Where metrics are served to Prometheus."),
  log: logSchema,
});

export type ProberConfig = z.output<typeof proberConfigSchema>;
