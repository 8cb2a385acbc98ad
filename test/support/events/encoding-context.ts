import { DEFAULT_CATALOG } from "../../../gateway/catalog.ts";
import type { FormatSettings, Head, PrepareContext, Sealer } from "../../../gateway/formats/format.ts";

export const FORMAT_SETTINGS: FormatSettings = {
  ...{ strictAlternation: false, unreadableContent: "reject", systemRole: "reject", unsupportedTools: "reject" },
};

/** A sealer with readable results: real sealing is random, and here only its position matters. */
const SEALER: Sealer = {
  sign: (text) => Buffer.from(`signed ${text}`).toString("base64"),
  seal: (text) => Buffer.from(`sealed ${text}`).toString("base64"),
  open: () => undefined,
};

/** The input of a format besides the request, for a model without images. */
export const CONTEXT: PrepareContext = {
  sealer: () => SEALER,
  acceptsImages: () => false,
  settings: FORMAT_SETTINGS,
  catalog: DEFAULT_CATALOG,
  usableModels: [],
  loadTests: false,
};

/** The head of an answer: the same ids and times in every run. */
export const HEAD: Head = {
  replyId: "000000000000000000000001",
  requestId: "req_000000000000000000000001",
  createdSeconds: 1_795_000_000,
  nowSeconds: () => 1_795_000_001,
  sealer: SEALER,
  cacheMiss: () => undefined,
};
