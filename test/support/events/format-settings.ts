import type { FormatSettings } from "../../../gateway/formats/format.ts";

/** The default settings of the formats. */
export const FORMAT_SETTINGS: FormatSettings = {
  strictAlternation: false,
  unreadableContent: "reject",
  systemRole: "reject",
  unsupportedTools: "reject",
};
