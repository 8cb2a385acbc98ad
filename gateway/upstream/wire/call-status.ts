import { Metadata, type ServiceError, status } from "@grpc/grpc-js";
import type { WireEnd } from "./generate-wire.ts";
import { ErrorCode } from "./http2/frames.ts";
import type { Headers } from "./http2/header-reader.ts";

/** The gRPC status of an answer with an HTTP status and no gRPC status. */
const BY_HTTP_STATUS: Readonly<Record<number, status>> = {
  400: status.INTERNAL,
  401: status.UNAUTHENTICATED,
  403: status.PERMISSION_DENIED,
  404: status.UNIMPLEMENTED,
  429: status.UNAVAILABLE,
  502: status.UNAVAILABLE,
  503: status.UNAVAILABLE,
  504: status.UNAVAILABLE,
};

/** The gRPC status of a reset stream, by the HTTP/2 error code. */
const BY_RESET: Readonly<Record<number, readonly [status, string]>> = {
  [ErrorCode.REFUSED_STREAM]: [status.UNAVAILABLE, "Stream refused by server"],
  [ErrorCode.CANCEL]: [status.CANCELLED, "Call cancelled"],
  [ErrorCode.ENHANCE_YOUR_CALM]: [status.RESOURCE_EXHAUSTED, "Bandwidth exhausted or memory limit exceeded"],
  [ErrorCode.INADEQUATE_SECURITY]: [status.PERMISSION_DENIED, "Protocol not secure enough"],
};

/** Returns the error of a call that ended with a gRPC status, in the form of grpc-js. */
export function failedCall(code: status, details: string, metadata = new Metadata()): ServiceError {
  return Object.assign(new Error(`${code} ${status[code]}: ${details}`), { code, details, metadata });
}

/** Returns the end of a call by its trailers; undefined where they have no status. */
export function endOf(trailers: Headers): WireEnd | undefined {
  const code = trailers["grpc-status"];
  if (code === undefined) return undefined;
  const metadata = Metadata.fromHttp2Headers(trailers);
  if (code === "0") return { error: undefined, trailers: metadata };
  const known = /^(?:[1-9]|1[0-6])$/.test(code) ? (Number(code) as status) : status.UNKNOWN;
  return { error: failedCall(known, detailsOf(trailers["grpc-message"]), metadata), trailers: metadata };
}

/** Returns the end of a call whose stream ended without a gRPC status. */
export function endWithoutStatus(lost: boolean, httpStatus: number | undefined, resetCode: number): WireEnd {
  return { error: errorWithoutStatus(lost, httpStatus, resetCode), trailers: new Metadata() };
}

function errorWithoutStatus(lost: boolean, httpStatus: number | undefined, resetCode: number): ServiceError {
  if (lost) return failedCall(status.UNAVAILABLE, "Connection dropped");
  if (httpStatus !== undefined && httpStatus !== 200)
    return failedCall(BY_HTTP_STATUS[httpStatus] ?? status.UNKNOWN, `Received HTTP status code ${httpStatus}`);
  const [code, details] = BY_RESET[resetCode] ?? [status.INTERNAL, `Received RST_STREAM with code ${resetCode}`];
  return failedCall(code, details);
}

/** Returns the percent-decoded message of a status; unchanged where it is badly encoded. */
function detailsOf(message: string | undefined): string {
  if (message === undefined) return "";
  try {
    return decodeURIComponent(message);
  } catch {
    return message;
  }
}
