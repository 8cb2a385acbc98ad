import { ApiError, type FieldPath } from "../../errors.ts";
import { invalidJson, parseBody, type ScannedBody, scanBody } from "../../json/json-body.ts";
import { isJsonObject } from "../../json/json-text.ts";
import { missing, unknownParameter, wrongType } from "../field-error.ts";
import { type Format, type ItemState, WHOLE_PROMPT } from "../format.ts";
import { requestBody } from "../request-body.ts";
import { type Answering, prepared, responses } from "./request.ts";
import { checkBody, MAX_CLIENT_METADATA_BYTES } from "./schema.ts";

/*
 * Responses over WebSocket. A frame is the body of a response with a few fields of its own, and may continue an earlier
 * response of its socket: then its `input` has new items only. Kept items (the output of that response, and earlier
 * tools) are put into the frame under a key that no caller may use, and read behind the state of all others.
 */

/** The key under which kept items are in a body: first those with the tools of earlier items, then an output. */
const KEPT_ITEMS = "kept_items";

/** The keys of a frame that must be unique. */
export const FRAME_KEYS: readonly string[] = [
  ...["type", "model", "input", "stream", "stream_id", "previous_response_id", "generate", "client_metadata"],
  KEPT_ITEMS,
];

/** The most bytes of a frame without a type that are parsed, for a precise error. */
const MAX_DIAGNOSED_BYTES = 65_536;

export type Frame = {
  readonly json: Buffer;
  readonly type: string;
  /** The name of the lane; undefined for the default one. */
  readonly streamId: string | undefined;
  /** The response that the frame continues. */
  readonly previousId: string | undefined;
  /** Whether an answer is wanted, or only an id to continue from. */
  readonly generates: boolean;
  /** What the caller says of this turn: pairs of strings, not checked for their number. */
  readonly metadata: Readonly<Record<string, unknown>>;
};

/** Reads the fields of a frame by which a socket decides, without parsing the rest. Throws `ApiError`. */
export function readFrame(bytes: Buffer): Frame {
  const scanned = scanBody(bytes, FRAME_KEYS);
  const { json, values } = scanned;
  const type = textOf(values, "type");
  if (type === undefined) throw whatIsWrong(scanned);
  if (values.has(KEPT_ITEMS)) throw unknownParameter(KEPT_ITEMS);
  const generates = parsedValue(values, "generate") ?? true;
  if (typeof generates !== "boolean") throw wrongType(["generate"], "a boolean", generates);
  const { length: metadataBytes = 0 } = values.get("client_metadata") ?? {};
  // Longer ones are refused by the translation.
  const metadata = metadataBytes <= 2 * MAX_CLIENT_METADATA_BYTES ? parsedValue(values, "client_metadata") : undefined;
  return {
    ...{ json, type, generates },
    streamId: textOf(values, "stream_id"),
    previousId: textOf(values, "previous_response_id"),
    metadata: isJsonObject(metadata) ? metadata : {},
  };
}

function parsedValue(values: ScannedBody["values"], key: string): unknown {
  const text = values.get(key)?.toString();
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) ?? undefined;
  } catch {
    throw invalidJson("json_syntax");
  }
}

function textOf(values: ScannedBody["values"], key: string): string | undefined {
  const value = parsedValue(values, key);
  if (value !== undefined && typeof value !== "string") throw wrongType([key], "a string", value);
  return value;
}

function whatIsWrong(scanned: ScannedBody): ApiError {
  if (scanned.json.length > MAX_DIAGNOSED_BYTES) return missing(["type"]);
  parseBody(scanned);
  return missing(["type"]);
}

const OPEN_BRACE = 0x7b;

function trimmed(text: Buffer): Buffer {
  let [from, to] = [0, text.length];
  while (from < to && isSpace(text[from])) from += 1;
  while (to > from && isSpace(text[to - 1])) to -= 1;
  return text.subarray(from, to);
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || (byte !== undefined && byte >= 0x09 && byte <= 0x0d);
}

/**
 * Returns the body of a frame, without a reference to it; one that continues a conversation is behind what its items left
 * and the JSON texts of the output that it continues. Throws `ApiError`.
 */
export function bodyOf({ json }: Frame, before?: ItemState, output: readonly string[] = []): Buffer {
  const kept = [...(before?.tools ?? []).map((item) => item.json), ...output].join(",");
  const text = trimmed(json);
  if (text[0] !== OPEN_BRACE) throw invalidJson("json_syntax");
  return Buffer.concat([Buffer.from(`{"${KEPT_ITEMS}":[${kept}],`), text.subarray(1)]);
}

/** The bodies that `bodyOf` makes. The answer is always a stream. */
export const responseFrames: Format<Answering> = {
  ...responses,
  prepare: (value, context) => {
    const body = requestBody(value);
    const { [KEPT_ITEMS]: list, type, stream, stream_id, generate, background, stream_options, ...rest } = body;
    const { previous_response_id: previous, input: own, ...settings } = rest;
    const { before } = context;
    const texts: readonly unknown[] = Array.isArray(list) ? list : [];
    const tools = texts.slice(0, before?.tools.length ?? 0);
    const output = texts.slice(tools.length);
    /** The number of items before those of the frame. */
    const kept = (before?.items ?? 0) + output.length;
    const items = typeof own === "string" && own !== "" && kept > 0 ? [{ role: "user", content: own }] : own;
    const input = Array.isArray(items) ? [...output, ...items] : items;
    const isEmpty = Array.isArray(input) && input.length === 0 && (generate === false || kept > 0);
    const { prompt_cache_options: cache } = settings;
    const prewarm = generate === false && {
      prompt_cache_options: { ...(isJsonObject(cache) && cache), prewarm: true },
    };
    try {
      const checked = checkBody({ ...settings, ...prewarm, stream: true, input: isEmpty ? "none" : input });
      const ready = prepared(isEmpty ? { ...checked, input: [] } : checked, context, false, tools);
      const { options, toolPaths, schemaPaths, messagePlaces, ...others } = ready;
      const echo = { ...options.echo, previous_response_id: typeof previous === "string" ? previous : null };
      return {
        ...others,
        options: { ...options, echo },
        ...(toolPaths && { toolPaths: toolPaths.map((path) => ownPath(path, kept)) }),
        ...(schemaPaths && { schemaPaths: schemaPaths.map((path) => ownPath(path, kept)) }),
        ...(messagePlaces && { messagePlaces: messagePlaces.map((place) => ownPlace(place, kept)) }),
      };
    } catch (error) {
      throw error instanceof ApiError ? inOwnInput(error, kept) : error;
    }
  },
};

/** Returns a path in the frame's own input; a kept item is a part of the response that the frame continues. */
function ownPath(path: FieldPath, kept: number): FieldPath {
  const [first, place, ...more] = path;
  if (first !== "input" || typeof place !== "number") return path;
  return place < kept ? ["previous_response_id"] : ["input", place - kept, ...more];
}

function ownPlace(place: number, kept: number): number {
  if (place < 0) return place;
  return place < kept ? WHOLE_PROMPT : place - kept;
}

/** Returns an error with the place that its caller knows, in its text as well. */
function inOwnInput(error: ApiError, kept: number): ApiError {
  const [first, place] = error.path ?? [];
  if (kept === 0 || first !== "input" || typeof place !== "number" || !error.path) return error;
  const shown = place < kept ? `(previous) input[${place}]` : `input[${place - kept}]`;
  const { code, wording, options, cause } = error;
  const written = (text: string) => text.replaceAll(`input[${place}]`, shown);
  const own = typeof wording === "string" ? written(wording) : { a: written(wording.a), b: wording.b };
  return new ApiError(code, own, { ...options, path: ownPath(error.path, kept), cause });
}
