import * as z from "zod";
import { milliseconds } from "../../deploy/runtime/config/process-schema.ts";
import type { ResourceMonitor } from "./overload-action.ts";

const threshold = (value: number | null) =>
  z
    .number()
    .gt(0)
    .nullable()
    .default(value)
    .describe("The share of the resource in use, 1 being all of it, from which the action begins; null for never.");

/** The triggers of an action: `value` for all resources except those in `others`. */
const triggers = (value: number, text: string, others: Partial<Record<ResourceMonitor, null>> = {}) =>
  z
    .strictObject({
      eventLoopDelay: threshold("eventLoopDelay" in others ? null : value),
      // A busy core is not an overload while no work waits for it.
      eventLoopUtilization: threshold(null),
      fixedHeap: threshold(value),
      processMemory: threshold(value),
      inflightBodyBytes: threshold("inflightBodyBytes" in others ? null : value),
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
      .prefault({})
      .describe("How late the event loop is with its timers."),
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
      .prefault({})
      .describe("How full the heap of JavaScript objects is."),
    processMemory: z
      .strictObject({
        maxRssBytes: z
          .int()
          .min(1)
          .optional()
          .describe(
            "The memory of the process, in bytes, that counts as all of it, buffers and libraries included; without it, the limit of the container, or the memory of the machine.",
          ),
      })
      .prefault({})
      .describe("How much memory the process holds in all."),
    globalDownstreamMaxConnections: z
      .strictObject({
        maxActiveDownstreamConnections: z
          .int()
          .min(1)
          .optional()
          .describe(
            "The number of connections of callers that may be open at once; one more is closed without an answer. Without it, three quarters of what `ulimit -n` lets the process open.",
          ),
      })
      .prefault({})
      .describe("How many connections callers have open."),
    inflightBodyBytes: z
      .strictObject({
        maxBytes: z
          .int()
          .min(1)
          .optional()
          .describe(
            "The size, in bytes, of all bodies together from their announcement until an engine has them for good; without it, a quarter of what processMemory has, at most 536870912. What comes on top waits unread.",
          ),
        maxShareOfKey: z
          .number()
          .gt(0)
          .max(1)
          .default(0.5)
          .describe(
            "The share, up to 1, that the bodies of one owner's keys take up of what others' leave of maxBytes: with 0.5 one owner takes half, two a third each, and there is room for another one. A single body may be larger.",
          ),
        maxWaitMs: milliseconds(
          10_000,
          "The time, in milliseconds, for which a body waits for room: then it gets 503 (529 in Format B), or 429 where its own key has no share left.",
        ),
      })
      .prefault({})
      .describe("How much room request bodies take up together."),
  })
  .prefault({})
  .describe("What counts as all of each resource that is watched.");

/** Schema of the settings of the overload manager, Envoy's `overload_manager`. */
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
        stopKeepingAnswers: triggers(
          0.8,
          "No further answer is kept for another engine to go on with: those that begin now fail with their engine.",
          { eventLoopDelay: null, inflightBodyBytes: null },
        ),
        disableHttpKeepalive: triggers(0.8, "Connections end with their answer."),
        rejectNonCritical: triggers(
          0.85,
          "Requests that count tokens, and those of keys of low priority, get 503 (529 in Format B).",
        ),
        releaseKeptAnswers: triggers(
          0.9,
          "Answers that are kept for another engine to go on with are let go of, the largest first: a quarter of what is kept, at every look. They run on, and fail with their engine.",
          { eventLoopDelay: null, inflightBodyBytes: null },
        ),
        // Bodies wait for their own budget; requests without a body need none.
        stopAcceptingRequests: triggers(0.95, "Every new request gets 503 (529 in Format B); those under way go on.", {
          inflightBodyBytes: null,
        }),
      })
      .prefault({})
      .describe(
        "An action begins when two looks in a row find one of its triggers reached, and ends when four find all of them 0.1 below.",
      ),
  })
  .prefault({})
  .describe("When the process is in trouble, and what it then does to stay alive.");

export type OverloadSettings = Readonly<z.infer<typeof overloadSchema>>;
