import * as z from "zod";
import { milliseconds } from "../../../deploy/runtime/config/process-schema.ts";

/**
 * The schema of outlier detection, Envoy's `outlier_detection`. For few, expensive nodes the defaults eject and retry
 * sooner than Envoy's, and eject more of them at a time.
 */
export const outlierSchema = z
  .strictObject({
    consecutiveGatewayFailure: z
      .int()
      .min(0)
      .default(5)
      .describe(
        "The number of calls in a row that failed by the endpoint's fault (connection refused or lost, no progress, error status) that eject it; 0 switches ejection off.",
      ),
    baseEjectionTimeMs: milliseconds(
      15_000,
      "The length of the first ejection, in milliseconds; each further one in a row is longer by as much.",
    ),
    maxEjectionTimeMs: milliseconds(300_000, "The length of the longest ejection, in milliseconds."),
    maxEjectionPercent: z
      .number()
      .min(0)
      .max(100)
      .default(50)
      .describe(
        "The share of the cluster's endpoints, in percent, that may be ejected at a time; one may be, whatever the share.",
      ),
  })
  .prefault({})
  .describe("When an endpoint whose calls fail gets no requests for a while.");

export type OutlierSettings = Readonly<z.infer<typeof outlierSchema>>;
