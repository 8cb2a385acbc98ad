import * as z from "zod";
import { milliseconds } from "../../deploy/runtime/config/process-schema.ts";
import type { ResourceMonitor } from "./overload-action.ts";

const threshold = (value: number | null) =>
  z
    .number()
    .gt(0)
    .nullable()
    .default(value)
    .describe("Used share of the resource, 0 to 1, at which the action starts; null: never.");

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
            "Timer delay, in milliseconds, that counts as all of the resource: the longest delay between two checks. A process that shares its core has delays of up to a second without harm.",
          ),
      })
      .prefault({})
      .describe("Delay of the event loop's timers."),
    fixedHeap: z
      .strictObject({
        maxHeapSizeBytes: z
          .int()
          .min(1)
          .optional()
          .describe("Heap size, in bytes, that counts as all of the resource; default: V8's heap limit."),
      })
      .prefault({})
      .describe("Use of the JavaScript heap."),
    processMemory: z
      .strictObject({
        maxRssBytes: z
          .int()
          .min(1)
          .optional()
          .describe(
            "Memory of the process, in bytes, that counts as all of the resource, buffers and libraries included; default: the limit of the container, or the memory of the machine.",
          ),
      })
      .prefault({})
      .describe("Resident memory of the process."),
    globalDownstreamMaxConnections: z
      .strictObject({
        maxActiveDownstreamConnections: z
          .int()
          .min(1)
          .optional()
          .describe(
            "Most open connections of callers; a further one is closed without a reply. Default: three quarters of `ulimit -n`.",
          ),
      })
      .prefault({})
      .describe("Open connections of callers."),
    inflightBodyBytes: z
      .strictObject({
        maxBytes: z
          .int()
          .min(1)
          .optional()
          .describe(
            "Size, in bytes, of all bodies together from their announcement until an engine has accepted them; default: a quarter of processMemory, at most 536870912. Further bodies wait unread.",
          ),
        maxShareOfKey: z
          .number()
          .gt(0)
          .max(1)
          .default(0.5)
          .describe(
            "Share, up to 1, of the free part of maxBytes that the bodies of one owner's keys may take: with 0.5 one owner takes half, two a third each, and there is room for another one. A single body may be larger.",
          ),
        maxWaitMs: milliseconds(
          10_000,
          "The time, in milliseconds, for which a body waits for room: then its request gets 503 (529 in Format B), or 429 if its own key has used up its share.",
        ),
      })
      .prefault({})
      .describe("Request bodies in flight."),
  })
  .prefault({})
  .describe("The monitored resources, and the limit of each.");

/** Schema of the settings of the overload manager, Envoy's `overload_manager`. */
export const overloadSchema = z
  .strictObject({
    refreshIntervalMs: z
      .int()
      .min(50)
      .default(250)
      .describe("The time, in milliseconds, between two checks of the resources."),
    resourceMonitors,
    actions: z
      .strictObject({
        stopKeepingAnswers: triggers(
          0.8,
          "No further answer is kept for continuation on another engine: answers that begin now fail with their engine.",
          { eventLoopDelay: null, inflightBodyBytes: null },
        ),
        disableHttpKeepalive: triggers(0.8, "Connections are closed after their reply."),
        rejectNonCritical: triggers(
          0.85,
          "Requests that count tokens, and those of keys of low priority, get 503 (529 in Format B).",
        ),
        releaseKeptAnswers: triggers(
          0.9,
          "Answers kept for continuation are dropped, largest first: a quarter of their memory at every check. They continue to run, and fail with their engine.",
          { eventLoopDelay: null, inflightBodyBytes: null },
        ),
        // Bodies wait for their own budget; requests without a body need none.
        stopAcceptingRequests: triggers(0.95, "Every new request gets 503 (529 in Format B); running ones continue.", {
          inflightBodyBytes: null,
        }),
      })
      .prefault({})
      .describe(
        "An action starts when two consecutive checks find one of its triggers reached, and ends when four find all of them 0.1 below.",
      ),
  })
  .prefault({})
  .describe("Overload of the process, and the actions against it.");

export type OverloadSettings = Readonly<z.infer<typeof overloadSchema>>;
