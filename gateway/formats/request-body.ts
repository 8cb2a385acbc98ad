import { type CatalogModel, findModel } from "../catalog.ts";
import { ApiError } from "../errors.ts";
import { isJsonObject, type JsonObject } from "../json/json-text.ts";
import { missing, wrongType } from "./field-error.ts";

/** Returns the body as an object. Throws `ApiError` `invalid_type` for any other JSON value. */
export function requestBody(body: unknown): JsonObject {
  if (isJsonObject(body)) return body;
  throw new ApiError("invalid_type", "The request body must be a JSON object.");
}

/**
 * Returns the catalog entry of the body's `model`. Throws `ApiError` when it is missing, no string or not in the
 * catalog; whether the key may use it is for the route to say. The message does not repeat the name: it may be
 * anything, a key included.
 */
export function catalogModel(value: unknown): CatalogModel {
  if (value === undefined || value === null) throw missing(["model"]);
  if (typeof value !== "string") throw wrongType(["model"], "a string", value);
  const model = findModel(value);
  if (model) return model;
  throw new ApiError("unknown_model", "The model does not exist. GET /v1/models lists the models of your key.", {
    path: ["model"],
  });
}
