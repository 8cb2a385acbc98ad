import type { FormatSettings } from "../../../gateway/formats/format.ts";

/** The settings of the formats that a gateway has where its configuration says nothing. */
export const FORMAT_SETTINGS: FormatSettings = {
  strictAlternation: false,
  unreadableContent: "reject",
  systemRole: "reject",
  reasoningField: "reasoning_content",
  unsupportedTools: "reject",
};
