import * as z from "zod";

/** The schema of the settings on metrics that are shown beside our own, and on those by key. */
export const statsSchema = z
  .strictObject({
    envoyNames: z
      .boolean()
      .default(true)
      .describe("Whether clusters are shown as `envoy_cluster_…`, too, for dashboards that were made for Envoy."),
    openTelemetryNames: z
      .boolean()
      .default(true)
      .describe(
        "Whether requests are shown as `gen_ai_…`, too, with the names and labels of OpenTelemetry's conventions for generative AI.",
      ),
    keySeries: z
      .int()
      .min(0)
      .max(10_000)
      .default(100)
      .describe(
        "The most keys whose use each gateway shows under their own id in `svc_key_…`; all others stand there as `other`. Whoever reads metrics sees the ids of these keys, which are no secret.",
      ),
  })
  .prefault({})
  .describe(
    "Under which names of others the metrics are shown beside our own, and how many keys have metrics of their own.",
  );

/** The settings on names of metrics that others fixed and on metrics by key, with their defaults. */
export type StatsSettings = z.output<typeof statsSchema>;
