import * as z from "zod";
import { milliseconds } from "../../deploy/runtime/config/process-schema.ts";

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
        maxWaitMs: milliseconds(
          10_000,
          "The time, in milliseconds, for which a body waits for room: then it gets 503 (529 in Format B), or 429 where its own key has no share left: the bodies of one owner's keys take half of what others' leave of maxBytes.",
        ),
      })
      .prefault({})
      .describe("Request bodies in flight."),
  })
  .prefault({})
  .describe("The monitored resources, and the limit of each.");

/** Schema of the settings of the overload manager, Envoy's `overload_manager`. */
export const overloadSchema = z
  .strictObject({ resourceMonitors })
  .prefault({})
  .describe(
    "What the process does to stay alive: from 85 % of heap or memory on it drops the answers that it keeps for another engine to continue, from 95 % of a resource on every new request gets 503 (529 in Format B). An action begins when two looks in a row, 250 ms apart, find a resource there, and ends when four find all of them 10 % below.",
  );

/** The settings of the overload manager, checked, with their defaults. */
export type OverloadSettings = Readonly<z.infer<typeof overloadSchema>>;
