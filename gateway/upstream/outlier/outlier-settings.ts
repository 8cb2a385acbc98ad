import * as z from "zod";
import { milliseconds } from "../../../deploy/runtime/config/process-schema.ts";

const percent = (value: number, text: string) => z.number().min(0).max(100).default(value).describe(text);
const count = (least: number, value: number, text: string) => z.int().min(least).default(value).describe(text);

/**
 * The schema of the settings of outlier detection, Envoy's `outlier_detection`. For few, expensive nodes the defaults
 * are faster to eject and to try again than Envoy's, and let more of them be ejected at a time.
 */
export const outlierSchema = z
  .strictObject({
    consecutiveGatewayFailure: count(
      0,
      5,
      "The number of failed answers in a row that eject an endpoint; 0 switches this off.",
    ),
    consecutiveLocalOriginFailure: count(
      0,
      5,
      "The number of times in a row that an endpoint was not reached or did not answer that eject it; 0 switches this off.",
    ),
    intervalMs: milliseconds(
      5_000,
      "The time, in milliseconds, after which failure rates are judged again and the memory of old ejections fades.",
    ),
    baseEjectionTimeMs: milliseconds(
      15_000,
      "The length of the first ejection, in milliseconds; each further one in a row is longer by as much.",
    ),
    maxEjectionTimeMs: milliseconds(300_000, "The length of the longest ejection, in milliseconds."),
    maxEjectionTimeJitterMs: count(
      0,
      0,
      "The most by which an ejection is longer, in milliseconds, drawn anew each time, so that endpoints which were ejected together do not all come back together.",
    ),
    maxEjectionPercent: percent(50, "The share of the cluster's endpoints, in percent, that may be ejected at a time."),
    alwaysEjectOneHost: z
      .boolean()
      .default(true)
      .describe("Whether one endpoint may be ejected whatever the share that may be."),
    failurePercentage: z
      .strictObject({
        thresholdPercent: percent(
          85,
          "The share of failed calls in an interval, in percent, from which an endpoint is an outlier.",
        ),
        minHosts: count(1, 1, "The number of endpoints with enough calls below which none is judged by its failures."),
        requestVolume: count(
          1,
          10,
          "The number of calls in an interval below which an endpoint is not judged by its failures.",
        ),
      })
      .prefault({})
      .describe("When an endpoint is an outlier by the share of its calls that fail."),
    successRate: z
      .strictObject({
        minHosts: count(
          1,
          5,
          "The number of endpoints with enough calls below which none is judged by its success rate.",
        ),
        requestVolume: count(
          1,
          20,
          "The number of calls in an interval below which an endpoint is not judged by its success rate.",
        ),
        stdevFactor: z
          .number()
          .positive()
          .default(1.9)
          .describe(
            "The number of standard deviations below the mean success rate from which an endpoint is an outlier.",
          ),
      })
      .prefault({})
      .describe("When an endpoint is an outlier by doing worse than the others."),
  })
  .prefault({})
  .describe("When an endpoint that does worse than it should is taken out for a while.");

/** The settings of how endpoints that do worse than they should are found and taken out for a while. */
export type OutlierSettings = Readonly<z.infer<typeof outlierSchema>>;
