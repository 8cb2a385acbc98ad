import * as z from "zod";

const threshold = (value: number | null) =>
  z
    .number()
    .gt(0)
    .nullable()
    .default(value)
    .describe("From which share of the resource on, 1 being all of it; null: never.");

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

/** Envoy's `overload_manager`: what is watched, and from when on which requests are turned away. */
export const overloadSchema = z
  .strictObject({
    refreshIntervalMs: z.int().min(50).default(250).describe("Between two looks at the resources."),
    resourceMonitors: z
      .strictObject({
        eventLoopDelay: z
          .strictObject({
            maxDelayMs: z
              .int()
              .min(1)
              .default(3_000)
              .describe(
                "How late timers may fire; measured as the longest delay between two looks. A process that shares its core with others is late by up to a second and well.",
              ),
          })
          .prefault({}),
        fixedHeap: z
          .strictObject({
            maxHeapSizeBytes: z.int().min(1).optional().describe("Absent: what V8 lets the heap grow to."),
          })
          .prefault({}),
        inflightBodyBytes: z
          .strictObject({
            maxBytes: z.int().min(1).default(536_870_912).describe("Of bodies that arrive, together; 503 above it."),
          })
          .prefault({}),
      })
      .prefault({}),
    actions: z
      .strictObject({
        disableHttpKeepalive: triggers(0.8, "Connections end with their answer."),
        rejectNonCritical: triggers(0.85, "Counting tokens and keys of low priority get 503 (529 in Format B)."),
        stopAcceptingRequests: triggers(0.95, "Every new request gets it; those under way go on."),
      })
      .prefault({})
      .describe(
        "Each begins when two looks in a row find one of its triggers reached, and ends when four find all of them 0.1 below.",
      ),
  })
  .prefault({});
