import * as z from "zod";

/** The schema of the settings on names of metrics that others fixed. */
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
  })
  .prefault({})
  .describe("Under which names of others the metrics are shown beside our own.");

/** The settings on names of metrics that others fixed, with their defaults. */
export type StatsSettings = z.output<typeof statsSchema>;
