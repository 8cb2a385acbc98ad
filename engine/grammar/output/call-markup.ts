import { charsOf, type Gbnf, literal, repeat, sequence } from "../../gbnf/gbnf.ts";
import type { ToolCallMarkers } from "../../output-parser/markers.ts";
import type { ParameterTags } from "./tagged-arguments.ts";

/** How calls are written around their arguments. */
export type CallMarkup = {
  /** The mark with which the calls begin, and what stands between it and the first call. "": none does. */
  readonly open: string;
  readonly behindOpen: string;
  /** A mark that begins calls as well, for models that forget the other; the first call stands behind it. */
  readonly otherOpen: string;
  readonly behindOtherOpen: string;
  /** A brace at the start of the text begins calls too. */
  readonly opensAtBrace: boolean;
  /** One call; its arguments are JSON, or parameters with the tags below. */
  readonly call: (name: string, args: Gbnf) => Gbnf;
  readonly tags?: ParameterTags;
  readonly between: string;
  readonly close: string;
};

/** Undefined for markup that is not written here. */
export function callMarkup(markers: ToolCallMarkers): CallMarkup | undefined {
  switch (markers.form) {
    case "json": {
      const { open, afterOpen, beforeClose, close, separator } = markers;
      const end = beforeClose + close;
      return {
        ...opening(open, afterOpen),
        call: jsonCall("arguments", end),
        between: separator + open + afterOpen,
        close: "",
      };
    }
    case "bare-json":
      return {
        ...opening("", "", markers.prefix),
        opensAtBrace: true,
        call: jsonCall(markers.argumentsKey, ""),
        between: markers.separator,
        close: "",
      };
    case "json-list":
      return {
        ...opening(markers.open, "["),
        call: jsonCall("arguments", ""),
        between: ", ",
        close: `]${markers.close}`,
      };
    case "sections": {
      const { open, callOpen, nameEnd, callClose, nameIsId, close } = markers;
      const index = repeat(charsOf("09"), 1, 4);
      const head = (name: string) => (nameIsId ? sequence(literal(`functions.${name}:`), index) : literal(name));
      return {
        ...(open === "" ? opening(callOpen, "") : opening(open, callOpen, callOpen)),
        call: (name, args) => sequence(head(name), literal(nameEnd), args, literal(callClose)),
        between: callOpen,
        close,
      };
    }
    case "key-value-tags": {
      const { open, close, separator, keyOpen, keyClose, valueOpen, valueClose } = markers;
      return {
        ...opening(open, ""),
        call: (name, args) => sequence(literal(name), args, literal(close)),
        tags: { before: (key) => keyOpen + key + keyClose + valueOpen, after: valueClose, tellsKind: false },
        between: separator + open,
        close: "",
      };
    }
    case "named-tags": {
      const { open, close, separator, callOpen, callNameEnd, callClose, oneCall } = markers;
      return {
        ...opening(open, callOpen, callOpen),
        call: (name, args) => sequence(literal(name + callNameEnd), args, literal(callClose)),
        tags: namedTags(markers),
        between: oneCall ? close + separator + open + callOpen : callOpen,
        close,
      };
    }
    case "engine-only":
      return undefined;
  }
}

type Opening = Pick<CallMarkup, "open" | "behindOpen" | "otherOpen" | "behindOtherOpen" | "opensAtBrace">;

/** White space at the end of a mark is not part of it: where the mark is a token, it has still to be written. */
function opening(mark: string, behind: string, other = ""): Opening {
  const open = mark.trimEnd();
  const otherOpen = other.trimEnd();
  return {
    open,
    behindOpen: mark.slice(open.length) + behind,
    otherOpen,
    behindOtherOpen: other.slice(otherOpen.length),
    opensAtBrace: false,
  };
}

function jsonCall(argumentsKey: string, end: string): CallMarkup["call"] {
  return (name, args) =>
    sequence(literal(`{"name": ${JSON.stringify(name)}, ${JSON.stringify(argumentsKey)}: `), args, literal(`}${end}`));
}

function namedTags(markers: Extract<ToolCallMarkers, { form: "named-tags" }>): ParameterTags {
  const { parameterOpen, parameterNameEnd, parameterClose, typedParameters } = markers;
  const attribute = (kind: "text" | "json") => (typedParameters ? `" string="${kind === "text"}">` : parameterNameEnd);
  return {
    before: (key, kind) => parameterOpen + key + attribute(kind),
    after: parameterClose,
    tellsKind: typedParameters,
  };
}
