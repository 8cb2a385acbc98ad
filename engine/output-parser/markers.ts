/** How a chat template marks reasoning, and the white space it writes beside the marks (at most that much is taken off). */
export type ReasoningMarkers = {
  readonly open: string;
  readonly close: string;
  readonly afterOpen: string;
  readonly beforeClose: string;
  readonly afterClose: string;
  /** The mark of a call ends the reasoning too. Default false: in reasoning it is only mentioned. */
  readonly endedByCall?: boolean | undefined;
};

/*
 * How a chat template writes tool calls, one type per form. White space at the ends of a mark is what the template writes
 * there; a model may leave it out or write other white space, except around a value.
 */

/** `open afterOpen {"name": …, "arguments": {…}} beforeClose close`. */
export type JsonCallMarkers = {
  readonly form: "json";
  readonly open: string;
  readonly close: string;
  readonly afterOpen: string;
  readonly beforeClose: string;
  /** Stands between the visible text and the first call, and between two calls. */
  readonly separator: string;
};

/** `{"name": …, argumentsKey: {…}}` at the start of the text, several of them with `separator` between. */
export type BareJsonCallMarkers = {
  readonly form: "bare-json";
  readonly argumentsKey: string;
  /** May stand before the object; "" where there is none. */
  readonly prefix: string;
  readonly separator: string;
};

/** `open [{"name": …, "arguments": {…}}, …] close`; `close` may be "". */
export type JsonListCallMarkers = { readonly form: "json-list"; readonly open: string; readonly close: string };

/** `open callOpen NAME nameEnd {…} callClose … close`; `open`, `close` and `callClose` may be "". */
export type SectionCallMarkers = {
  readonly form: "sections";
  readonly open: string;
  readonly close: string;
  readonly callOpen: string;
  readonly nameEnd: string;
  readonly callClose: string;
  /** The name is written as `functions.name:index`, and that is the id of the call. */
  readonly nameIsId: boolean;
  /** Stands between the name and an id of the call; "" where none is written. */
  readonly idOpen: string;
};

/** `open NAME keyOpen KEY keyClose valueOpen VALUE valueClose … close`. */
export type KeyValueCallMarkers = {
  readonly form: "key-value-tags";
  readonly open: string;
  readonly close: string;
  readonly separator: string;
  readonly keyOpen: string;
  readonly keyClose: string;
  readonly valueOpen: string;
  readonly valueClose: string;
};

/** `open callOpen NAME callNameEnd parameterOpen KEY parameterNameEnd VALUE parameterClose … callClose … close`. */
export type NamedTagCallMarkers = {
  readonly form: "named-tags";
  readonly open: string;
  readonly close: string;
  readonly separator: string;
  readonly callOpen: string;
  readonly callNameEnd: string;
  readonly callClose: string;
  readonly parameterOpen: string;
  readonly parameterNameEnd: string;
  readonly parameterClose: string;
  /** A parameter says `string="true"` (text) or `string="false"` (JSON) between its name's quote and the bracket. */
  readonly typedParameters: boolean;
  /** Several calls are several groups. */
  readonly oneCall: boolean;
};

/** Only the parser of the engine that serves such a model reads it: for us it is text. */
export type EngineOnlyCallMarkers = { readonly form: "engine-only"; readonly open: string };

export type ToolCallMarkers =
  | JsonCallMarkers
  | BareJsonCallMarkers
  | JsonListCallMarkers
  | SectionCallMarkers
  | KeyValueCallMarkers
  | NamedTagCallMarkers
  | EngineOnlyCallMarkers;

/** The markup of one family of models, as data. A part that is absent does not exist in that family. */
export type OutputMarkers = {
  readonly reasoning?: ReasoningMarkers;
  readonly toolCall?: ToolCallMarkers;
};
