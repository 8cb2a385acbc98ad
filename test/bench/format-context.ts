import { DEFAULT_CATALOG } from "../../gateway/catalog.ts";
import type { Head, PrepareContext } from "../../gateway/formats/format.ts";
import { Sealing } from "../../gateway/sealing/sealing.ts";
import { FORMAT_SETTINGS } from "../support/events/format-settings.ts";

const sealer = new Sealing().for({ tenant: "bench", model: "svc-qwen", format: "bench" });

/** What the gateway hands to a format beside a request, with the gateway's defaults. */
export const BENCH_CONTEXT: PrepareContext = {
  sealer: () => sealer,
  acceptsImages: () => true,
  settings: FORMAT_SETTINGS,
  catalog: DEFAULT_CATALOG,
  usableModels: [],
};

/** What an answer is told of itself in the benches: the same in every run. */
export const BENCH_HEAD: Head = {
  replyId: "0123456789abcdefghijklmn",
  requestId: "0123456789abcdefghijklmn",
  createdSeconds: 1_763_596_800,
  nowSeconds: () => 1_763_596_800,
  sealer,
};
