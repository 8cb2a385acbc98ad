import type { OutputMarkers } from "../../../engine/output-parser/markers.ts";

/** The markers of Hermes and ChatML templates, Qwen's included, and of the demonstration model. */
export const HERMES_MARKERS = {
  reasoning: { open: "<think>", close: "</think>", afterOpen: "\n", beforeClose: "\n", afterClose: "\n\n" },
  toolCall: {
    form: "json",
    open: "<tool_call>",
    close: "</tool_call>",
    afterOpen: "\n",
    beforeClose: "\n",
    separator: "\n",
  },
} as const satisfies OutputMarkers;
