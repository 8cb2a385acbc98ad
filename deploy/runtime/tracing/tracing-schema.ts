import * as z from "zod";

/** The OTLP export of traces; the exporter reads all other options, such as headers, from the variables OTEL_*. */
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
        "Root URL of the collector (OTLP over HTTP); default: the variable OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318.",
      ),
    samplingRatio: z
      .number()
      .min(0)
      .max(1)
      .default(0.01)
      .describe(
        "Sampling rate, 0 to 1, of traces that begin in this process. Traces that a caller samples, and failures of the service, are always exported; of others of a caller a gateway exports the same share, a node none.",
      ),
  })
  .describe("Export of traces; without this section none are exported, and the SDK is not loaded.");

export type TracingConfig = z.infer<typeof tracingSchema>;
