import * as z from "zod";

/**
 * The schema of the settings on the export of traces over OTLP. What has no setting, such as headers for the collector,
 * the exporter takes from the variables OTEL_*.
 */
export const tracingSchema = z
  .strictObject({
    otlpEndpoint: z
      .url({ protocol: /^https?$/ })
      .refine(
        (url) => !URL.canParse(url) || new URL(url).username === "",
        "no credentials here: OTEL_EXPORTER_OTLP_HEADERS",
      )
      .optional()
      .describe(
        "The root URL of the collector, which takes OTLP over HTTP; without it, the variable OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318.",
      ),
    samplingRatio: z
      .number()
      .min(0)
      .max(1)
      .default(0.01)
      .describe(
        "The share, 0 to 1, of the traces exported that begin in this process. Those that a caller samples, and failures of the service, are always exported; of those that a caller does not sample, a gateway exports the same share, and a node none.",
      ),
  })
  .describe("Traces are exported only with this section; without it nothing is loaded for them either.");

/** The settings on the export of traces, checked, with their defaults. */
export type TracingConfig = z.infer<typeof tracingSchema>;
