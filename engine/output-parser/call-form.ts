import type { ArgumentTypes } from "../tool-calls/readers/argument-types.ts";
import type { CallReader } from "../tool-calls/readers/call-reader.ts";
import { JsonCallReader } from "../tool-calls/readers/json-call-reader.ts";
import { LeadingMarkReader } from "../tool-calls/readers/leading-mark-reader.ts";
import { SectionCallReader } from "../tool-calls/readers/section-call-reader.ts";
import { type KeyEnd, type TaggedCallForm, TaggedCallReader } from "../tool-calls/readers/tagged-call-reader.ts";
import type { KeyValueCallMarkers, NamedTagCallMarkers, ToolCallMarkers } from "./markers.ts";

/** How calls stand among the text, and what reads one. */
export type CallForm = {
  /** Marks that begin a call, or a group of calls. */
  readonly openers: readonly string[];
  /** A brace at the start of the text begins a call too. */
  readonly opensAtBrace: boolean;
  /** Between two calls of a group; "" where calls stand alone. */
  readonly next: string;
  /** The end of a group; "" where it has none. */
  readonly close: string;
  /** White space that the template writes before the first mark and behind the last. */
  readonly separator: string;
  /** A reader for the call behind `mark`: one of the openers, `next`, or "" for a brace (which it reads itself). */
  readonly newReader: (mark: string) => CallReader;
};

/** Keys that stand beside those of a call and say nothing. */
const PASSED_KEYS = ["type", "id"];

/** Undefined for markup that is not read here. */
export function callForm(
  markers: ToolCallMarkers,
  knownNames: ReadonlySet<string>,
  types: ArgumentTypes,
): CallForm | undefined {
  const alone = { opensAtBrace: false, next: "", close: "", separator: "" };
  switch (markers.form) {
    case "json": {
      const { open, close, separator } = markers;
      const options = { close, argumentsKeys: ["arguments"], otherKeys: "any" } as const;
      return { ...alone, openers: [open], separator, newReader: () => new JsonCallReader(options, knownNames) };
    }
    case "bare-json": {
      const { argumentsKey, prefix, separator } = markers;
      const argumentsKeys = [...new Set([argumentsKey, "arguments"])];
      const options = { close: "", argumentsKeys, otherKeys: PASSED_KEYS } as const;
      return {
        ...alone,
        openers: marks(prefix),
        opensAtBrace: true,
        next: separator.trim(),
        newReader: () => new JsonCallReader(options, knownNames),
      };
    }
    case "json-list": {
      const open = markers.open.trim();
      const options = { close: "", argumentsKeys: ["arguments"], otherKeys: "any" } as const;
      const newReader = () => new JsonCallReader(options, knownNames);
      const first = () => new LeadingMarkReader("[", newReader());
      const close = `]${markers.close.trim()}`;
      return {
        ...alone,
        openers: [open],
        next: ",",
        close,
        newReader: (mark) => (mark === open ? first() : newReader()),
      };
    }
    case "sections":
      return grouped(markers, "", () => new SectionCallReader(markers, knownNames));
    case "key-value-tags": {
      const form = keyValueForm(markers);
      const newReader = () => new TaggedCallReader(form, knownNames, types);
      return { ...alone, openers: [markers.open.trim()], separator: markers.separator, newReader };
    }
    case "named-tags": {
      const form = namedTagForm(markers);
      return grouped(markers, markers.separator, () => new TaggedCallReader(form, knownNames, types));
    }
    case "engine-only":
      return undefined;
  }
}

/** Calls inside an outer pair of marks; models forget the outer opening mark, so that of a call counts as well. */
function grouped(
  markers: { readonly open: string; readonly close: string; readonly callOpen: string },
  separator: string,
  newReader: () => CallReader,
): CallForm {
  const open = markers.open.trim();
  const next = markers.callOpen.trim();
  return {
    openers: [...marks(open), next],
    opensAtBrace: false,
    next: open === "" ? "" : next,
    close: markers.close.trim(),
    separator,
    newReader: (mark) => (mark === open && open !== "" ? new LeadingMarkReader(next, newReader()) : newReader()),
  };
}

function keyValueForm(markers: KeyValueCallMarkers): TaggedCallForm {
  return {
    nameEnd: "",
    parameterOpen: markers.keyOpen.trim(),
    keyEnds: [{ mark: markers.keyClose.trim(), value: "by-schema" }],
    valueOpen: markers.valueOpen.trim(),
    valueLead: spaceBehind(markers.valueOpen),
    valueTail: spaceBefore(markers.valueClose),
    valueClose: markers.valueClose.trim(),
    callClose: markers.close.trim(),
    outerClose: "",
  };
}

function namedTagForm(markers: NamedTagCallMarkers): TaggedCallForm {
  const keyEnd = markers.parameterNameEnd.trim();
  const typed: readonly KeyEnd[] = [
    { mark: '" string="true">', value: "text" },
    { mark: '" string="false">', value: "json" },
  ];
  return {
    nameEnd: markers.callNameEnd.trim(),
    parameterOpen: markers.parameterOpen.trim(),
    keyEnds: [...(markers.typedParameters ? typed : []), { mark: keyEnd, value: "by-schema" }],
    valueOpen: "",
    valueLead: spaceBehind(markers.parameterNameEnd),
    valueTail: spaceBefore(markers.parameterClose),
    valueClose: markers.parameterClose.trim(),
    callClose: markers.callClose.trim(),
    outerClose: markers.close.trim(),
  };
}

function marks(mark: string): readonly string[] {
  return mark.trim() === "" ? [] : [mark.trim()];
}

const spaceBehind = (mark: string) => mark.slice(mark.trimEnd().length);
const spaceBefore = (mark: string) => mark.slice(0, mark.length - mark.trimStart().length);
