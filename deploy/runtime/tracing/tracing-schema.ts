import * as z from "zod";
import { milliseconds } from "../config/process-schema.ts";

/** Export of traces over OTLP. What is not here, such as headers for the collector, the exporter takes from OTEL_*. */
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
        "The collector's root, for OTLP over HTTP; absent: OTEL_EXPORTER_OTLP_ENDPOINT, or http://localhost:4318.",
      ),
    samplingRatio: z
      .number()
      .min(0)
      .max(1)
      .default(0.01)
      .describe("Share of the traces to be exported of which nobody else has decided so. Failures always are."),
    maxQueueSize: z.int().min(512).max(65_536).default(2_048).describe("Spans that may wait; more are dropped."),
    scheduleDelayMs: milliseconds(5_000, "Between two exports."),
    exportTimeoutMs: milliseconds(10_000, "How long one export may take, its retries included."),
  })
  .describe("Absent: nothing is exported, and nothing loaded for it.");

export type TracingConfig = z.infer<typeof tracingSchema>;
