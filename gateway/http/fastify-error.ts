import { ApiError, toApiError } from "../errors.ts";

/** API errors by codes of Fastify and Node. The texts of those may quote the request, so none is passed on. */
const BY_CODE: Readonly<Record<string, () => ApiError>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new ApiError("unsupported_media_type", "The content type must be application/json."),
  FST_ERR_BAD_URL: () => new ApiError("bad_request", "The request path is not valid."),
  FST_ERR_MAX_PARAM_LENGTH: () => new ApiError("unknown_url", "Unknown request URL."),
  ECONNRESET: bodyBrokeOff,
};

/** Makes the error for a caller that left during its request. */
export function bodyBrokeOff(): ApiError {
  return new ApiError("bad_request", "The request body broke off.", { detail: "downstream_remote_disconnect" });
}

/** Returns the API error for an error in Fastify's error handler. */
export function fromFastify(error: unknown): ApiError {
  const code = typeof error === "object" && error !== null ? Reflect.get(error, "code") : undefined;
  const known = typeof code === "string" ? BY_CODE[code] : undefined;
  return known ? known() : toApiError(error);
}
