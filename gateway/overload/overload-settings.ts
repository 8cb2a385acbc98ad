import * as z from "zod";

const threshold = (value: number | null) =>
  z
    .number()
    .gt(0)
    .nullable()
    .default(value)
    .describe("The share of the resource in use, 1 being all of it, from which the action begins; null for never.");

const triggers = (value: number, text: string) =>
  z
    .strictObject({
      eventLoopDelay: threshold(value),
      // A busy core is no trouble as long as nothing waits for it.
      eventLoopUtilization: threshold(null),
      fixedHeap: threshold(value),
      inflightBodyBytes: threshold(value),
    })
    .prefault({})
    .describe(text);

const resourceMonitors = z
  .strictObject({
    eventLoopDelay: z
      .strictObject({
        maxDelayMs: z
          .int()
          .min(1)
          .default(3_000)
          .describe(
            "The lateness of timers, in milliseconds, that counts as all of the resource: the longest one between two looks. A process that shares its core with others is late by up to a second and well.",
          ),
      })
      .prefault({}),
    fixedHeap: z
      .strictObject({
        maxHeapSizeBytes: z
          .int()
          .min(1)
          .optional()
          .describe(
            "The size of the heap, in bytes, that counts as all of it; without it, what V8 lets the heap grow to.",
          ),
      })
      .prefault({}),
    inflightBodyBytes: z
      .strictObject({
        maxBytes: z
          .int()
          .min(1)
          .default(536_870_912)
          .describe("The size, in bytes, of all bodies together that are being received; what comes on top gets 503."),
      })
      .prefault({}),
  })
  .prefault({});

/** The schema of the settings of the overload manager, Envoy's `overload_manager`. */
export const overloadSchema = z
  .strictObject({
    refreshIntervalMs: z
      .int()
      .min(50)
      .default(250)
      .describe("The time, in milliseconds, between two looks at the resources."),
    resourceMonitors,
    actions: z
      .strictObject({
        disableHttpKeepalive: triggers(0.8, "Connections end with their answer."),
        rejectNonCritical: triggers(
          0.85,
          "Requests that count tokens, and those of keys of low priority, get 503 (529 in Format B).",
        ),
        stopAcceptingRequests: triggers(0.95, "Every new request gets 503 (529 in Format B); those under way go on."),
      })
      .prefault({})
      .describe(
        "An action begins when two looks in a row find one of its triggers reached, and ends when four find all of them 0.1 below.",
      ),
  })
  .prefault({});

/** The settings of what is watched of the process, and from when on which requests are turned away. */
export type OverloadSettings = Readonly<z.infer<typeof overloadSchema>>;
