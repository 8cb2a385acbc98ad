import * as z from "zod";
import { milliseconds } from "../../../deploy/runtime/config/process-schema.ts";

/** The schema of active health checks, Envoy's `health_checks`. */
export const healthCheckSchema = z
  .strictObject({
    intervalMs: milliseconds(
      5_000,
      "The time, in milliseconds, between two checks of an endpoint that is well; what it says itself counts at once.",
    ),
    intervalJitterMs: z
      .int()
      .min(0)
      .default(1_000)
      .describe("The most by which an interval is longer or shorter, in milliseconds."),
    unhealthyIntervalMs: milliseconds(
      1_000,
      "The time, in milliseconds, between two checks of an endpoint that is not well, or about which a check has raised doubt.",
    ),
    timeoutMs: milliseconds(2_000, "The longest time that the answer to a check may take, in milliseconds."),
    unhealthyThreshold: z
      .int()
      .min(1)
      .default(2)
      .describe("The number of failed checks in a row that make an endpoint unhealthy."),
    healthyThreshold: z
      .int()
      .min(1)
      .default(2)
      .describe(
        "The number of passed checks in a row that make an endpoint healthy again; the very first check decides alone.",
      ),
  })
  .prefault({})
  .describe("How the health of the model is checked on each endpoint.");

/** The settings of a cluster's active health checks. */
export type HealthCheckSettings = Readonly<z.infer<typeof healthCheckSchema>>;

/** The numbers of consecutive checks that change the health of a model on an endpoint. */
export type HealthThresholds = Pick<HealthCheckSettings, "unhealthyThreshold" | "healthyThreshold">;
