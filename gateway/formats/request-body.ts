import { isDeepStrictEqual } from "node:util";
import { type CatalogModel, findModel } from "../catalog.ts";
import { ApiError } from "../errors.ts";
import { isJsonObject, type JsonObject } from "../json/json-text.ts";
import { missing, unsupportedParameter, wrongType } from "./field-error.ts";
import type { PrepareContext } from "./format.ts";

type ModelContext = Pick<PrepareContext, "catalog" | "usableModels">;

export function requestBody(body: unknown): JsonObject {
  if (isJsonObject(body)) return body;
  throw new ApiError("invalid_type", "The request body must be a JSON object.");
}

/** Throws `ApiError` for no string and for a model outside the catalog; the route checks whether the key may use it. */
export function catalogModel(value: unknown, { catalog, usableModels }: ModelContext): CatalogModel {
  if (value === undefined || value === null) throw missing(["model"]);
  if (typeof value !== "string") throw wrongType(["model"], "a string", value);
  const model = findModel(value, catalog);
  if (model) return model;
  // A text that is longer, or of another form than a model's name, may be anything, a key included.
  const shown = /^[a-z0-9][a-z0-9./:-]{0,47}$/i.test(value) ? ` '${value}'` : "";
  const text = `The model${shown} does not exist. ${offer(usableModels)}`;
  throw new ApiError("unknown_model", { a: text, b: `model: ${text}` }, { path: ["model"] });
}

const MAX_NAMED = 16;

function offer(usable: readonly string[]): string {
  if (usable.length === 0) return "GET /v1/models lists the models of your key.";
  const more = usable.length > MAX_NAMED ? ", and others, which GET /v1/models lists" : "";
  return `Your key can use: ${usable.slice(0, MAX_NAMED).join(", ")}${more}.`;
}

type Neutral = string | number | boolean | readonly never[] | Readonly<Record<string, string>>;

/** A documented field that does not reach the request. Unknown ones are ignored as well, where a schema is open. */
export type UntakenField = {
  /** The path of the field: a refused one is at the top level; `[]` is an item of a list, `[]<name>` one of that type. */
  readonly field: string;
  /** Refused if leaving it out would change the answer or mislead the caller; ignored if it only tunes the service. */
  readonly becomes: "refused" | "ignored";
  /** Sentences for the caller. */
  readonly why: string;
  /** The values besides null that mean the same as absence. Default: none. */
  readonly neutral?: readonly Neutral[];
  /** The `error.details` of a refusal in Format B, by which some SDKs steer. */
  readonly details?: Readonly<Record<string, unknown>>;
};

/** Makes rows of refused fields, each with its neutral values. */
export function refused(why: string, fields: Readonly<Record<string, readonly Neutral[]>>): readonly UntakenField[] {
  return Object.entries(fields).map(([field, neutral]) => ({ field, becomes: "refused", why, neutral }));
}

export function ignored(why: string, fields: readonly string[]): readonly UntakenField[] {
  return fields.map((field) => ({ field, becomes: "ignored", why }));
}

/** Throws `ApiError` `unsupported_parameter` for the first refused field that the body gives a value of meaning. */
export function refuseUntaken(body: JsonObject, fields: readonly UntakenField[]): void {
  for (const { field, becomes, why, neutral = [], details } of fields) {
    if (becomes !== "refused") continue;
    const value = body[field] ?? undefined;
    if (value === undefined || neutral.some((one) => isDeepStrictEqual(value, one))) continue;
    const refusal = unsupportedParameter([field], why);
    throw details ? new ApiError(refusal.code, refusal.wording, { path: [field], details }) : refusal;
  }
}
