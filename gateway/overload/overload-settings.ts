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
        maxWaitMs: milliseconds(
          10_000,
          "The time, in milliseconds, for which a body waits for room: then it gets 503 (529 in Format B), or 429 where its own key has no share left: the bodies of one owner's keys take half of what others' leave of maxBytes.",
        ),
      })
      .prefault({})
      .describe("How much room request bodies take up together."),
  })
  .prefault({})
  .describe("What counts as all of each resource that is watched.");

/** The schema of the settings of the overload manager, Envoy's `overload_manager`. */
export const overloadSchema = z
  .strictObject({ resourceMonitors })
  .prefault({})
  .describe(
    "What the process does to stay alive: from 85 % of heap or memory on it drops the answers that it keeps for another engine to continue, from 95 % of a resource on every new request gets 503 (529 in Format B). An action begins when two looks in a row, 250 ms apart, find a resource there, and ends when four find all of them 10 % below.",
  );

/** The settings of the overload manager, checked, with their defaults. */
export type OverloadSettings = Readonly<z.infer<typeof overloadSchema>>;
