import * as z from "zod";
import { milliseconds } from "../../deploy/runtime/config/process-schema.ts";
import { DEFAULT_OUTLIER_DETECTION as byDefault } from "../upstream/outlier/outlier-detector.ts";

const percent = (value: number, text: string) => z.number().min(0).max(100).default(value).describe(text);
const count = (least: number, value: number, text: string) => z.int().min(least).default(value).describe(text);

/** Envoy's `outlier_detection`. */
export const outlierSchema = z
  .strictObject({
    consecutiveGatewayFailure: count(
      0,
      byDefault.consecutiveGatewayFailure,
      "Failed answers in a row that eject; 0: never.",
    ),
    consecutiveLocalOriginFailure: count(
      0,
      byDefault.consecutiveLocalOriginFailure,
      "Times in a row that an endpoint was not reached or did not answer, that eject; 0: never.",
    ),
    intervalMs: milliseconds(byDefault.intervalMs, "How often rates are judged."),
    baseEjectionTimeMs: milliseconds(byDefault.baseEjectionTimeMs, "The first ejection; each further one is longer."),
    maxEjectionTimeMs: milliseconds(byDefault.maxEjectionTimeMs, "The longest ejection."),
    maxEjectionTimeJitterMs: z
      .int()
      .min(0)
      .default(byDefault.maxEjectionTimeJitterMs)
      .describe("An ejection is longer by up to this, drawn anew each time."),
    maxEjectionPercent: percent(byDefault.maxEjectionPercent, "Share of the cluster that may be ejected at a time."),
    alwaysEjectOneHost: z
      .boolean()
      .default(byDefault.alwaysEjectOneHost)
      .describe("One endpoint may be ejected whatever the share."),
    failurePercentage: z
      .strictObject({
        thresholdPercent: percent(
          byDefault.failurePercentage.thresholdPercent,
          "Share of failed calls from which an endpoint is an outlier.",
        ),
        minHosts: count(1, byDefault.failurePercentage.minHosts, "Endpoints with enough calls, below which none is."),
        requestVolume: count(
          1,
          byDefault.failurePercentage.requestVolume,
          "Calls in an interval, below which an endpoint is not judged.",
        ),
      })
      .prefault({}),
    successRate: z
      .strictObject({
        minHosts: count(1, byDefault.successRate.minHosts, "As above."),
        requestVolume: count(1, byDefault.successRate.requestVolume, "As above."),
        stdevFactor: z
          .number()
          .positive()
          .default(byDefault.successRate.stdevFactor)
          .describe("Standard deviations below the mean from which an endpoint is an outlier."),
      })
      .prefault({}),
  })
  .prefault({});
