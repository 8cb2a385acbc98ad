import * as z from "zod";
import { milliseconds } from "../../../../../deploy/runtime/config/process-schema.ts";

const seconds = () => z.number().min(0).max(600);

/**
 * The schema of the settings of prefix affinity. The defaults of all weights are those that did best on recorded sessions,
 * by `npm run bench -- replay`.
 */
export const prefixAffinitySchema = z
  .strictObject({
    maxPrefixes: z
      .int()
      .min(1)
      .default(50_000)
      .describe(
        "The number of prompt prefixes whose endpoints are remembered, some 400 bytes each; the ones that were not used for longest go first.",
      ),
    maxHolders: z
      .int()
      .min(1)
      .default(8)
      .describe(
        "The number of endpoints that are remembered for one prefix; a head that all sessions share is soon everywhere.",
      ),
    idleTtlMs: milliseconds(
      3_600_000,
      "The time, in milliseconds, for which an engine is believed to keep a prefix after its last use, when neither the request says nor the node how long it has kept others.",
    ),
    scoreAllUpTo: z
      .int()
      .min(1)
      .default(8)
      .describe("The number of endpoints up to which all of them are compared; of more, only the candidates are."),
    placementCandidates: z
      .int()
      .min(1)
      .default(2)
      .describe("The number of endpoints that are compared because they hold the longest part of the prompt."),
    randomCandidates: z
      .int()
      .min(0)
      .default(4)
      .describe("The number of endpoints that are compared because they were drawn at random."),
    ownerCandidates: z
      .int()
      .min(1)
      .default(2)
      .describe("The number of endpoints that are compared because they own the conversation on the hash ring."),
    // Above 1, as it is work that every later request waits for, too. At 1 a burst makes conversations run from busy
    // endpoints to others, where all of them is prefilled anew.
    uncachedWeight: z
      .number()
      .min(1)
      .default(2)
      .describe(
        "What a token to be prefilled anew counts beside one that waits already; the head of a new conversation counts once, as later ones will find it.",
      ),
    evictionWeight: z
      .number()
      .min(0)
      .default(60)
      .describe(
        "What a token to be prefilled anew that another endpoint holds counts on top of that where caches are so full that they evict what was used a moment ago; the longer they keep what nobody uses, the less it counts.",
      ),
    workingSetWeight: z
      .number()
      .min(0)
      .default(0.8)
      .describe(
        "What a token of the conversations of the last five minutes on an endpoint counts, beside one that waits there, for a conversation of which it holds less than half; as evictionWeight, it counts the less the longer caches keep what nobody uses.",
      ),
    kvCostSeconds: seconds()
      .default(0.15)
      .describe(
        "What a KV cache at one half costs, in seconds of prefill; the cost grows without bound towards a full one.",
      ),
    requestCostSeconds: seconds()
      .default(0.5)
      .describe("What each request on an endpoint costs a new one, in seconds of prefill."),
    // By the replay 10 and 25 come to much the same first tokens; 2.5 has more prefilled anew than that gains.
    requestSeconds: z
      .number()
      .min(1)
      .max(3_600)
      .default(25)
      .describe(
        "The time for which each request is on an endpoint, in seconds: by how many there are on the average it tells how many will come while a prompt is prefilled, and wait for that. The longer, the less it matters where a long prompt goes; nor does it where caches keep for less than five minutes what nobody uses.",
      ),
    ownerWorthSeconds: z
      .array(seconds())
      .max(16)
      .default([5, 2])
      .describe(
        "What it is worth, in seconds of prefill, that a conversation which this gateway has not met goes to its first owner, its second and so on: all gateways will expect it there.",
      ),
    ownerBelief: z
      .array(z.number().min(0).max(1))
      .max(16)
      .default([0.9, 0.3])
      .describe(
        "The share of the earlier turns, 0 to 1, that the first owner, the second and so on are taken to hold of a conversation that another gateway placed.",
      ),
  })
  .prefault({})
  .describe("Settings of the policy prefix_affinity.");

/** The settings of prefix affinity, checked, with their defaults. */
export type PrefixAffinitySettings = Readonly<z.infer<typeof prefixAffinitySchema>>;
