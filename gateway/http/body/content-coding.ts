import type { IncomingMessage } from "node:http";
import zlib from "node:zlib";
import { ApiError } from "../../errors.ts";
import { bodyTooLarge } from "../access/request-head.ts";
import { bodyBrokeOff } from "../record/request-context.ts";
import { receiveBody } from "./body-upload.ts";

/**
 * Largest window of a Zstandard body, as a power of two in bytes: the 8 MB that RFC 8878 asks of every decoder. The
 * library's own default is 128 MB a request.
 */
const ZSTD_WINDOW_LOG = 23;

type Decoder = zlib.Gunzip;

/** Makes the decoder of each content coding of RFC 9110. Node has Zstandard since 22.15. */
const DECODERS: Readonly<Record<string, () => Decoder>> = {
  gzip: () => zlib.createGunzip(),
  "x-gzip": () => zlib.createGunzip(),
  deflate: () => zlib.createInflate(),
  br: () => zlib.createBrotliDecompress(),
  ...zstandard(),
};

/** The content codings of bodies, as `accept-encoding` names them. */
export const CONTENT_CODINGS = Object.keys(DECODERS).filter((coding) => coding !== "x-gzip");

function zstandard(): Readonly<Record<string, () => Decoder>> {
  // The types are those of the oldest supported Node.
  const { createZstdDecompress, constants } = zlib as unknown as {
    createZstdDecompress?: (options: { params: Record<number, number> }) => Decoder;
    constants: Record<string, number>;
  };
  const windowLog = constants.ZSTD_d_windowLogMax;
  if (!createZstdDecompress || windowLog === undefined) return {};
  return { zstd: () => createZstdDecompress({ params: { [windowLog]: ZSTD_WINDOW_LOG } }) };
}

/**
 * Returns the content coding of a request's body; undefined for a body as it is. Throws `ApiError`: `bad_request` for
 * more than one coding, `unsupported_media_type` for an unknown one.
 */
export function contentCoding({ headers }: Pick<IncomingMessage, "headers">): string | undefined {
  const given = headers["content-encoding"]?.trim().toLowerCase();
  if (given === undefined || given === "" || given === "identity") return undefined;
  if (given.includes(",")) throw unclear("A body can have one content coding only.");
  if (Object.hasOwn(DECODERS, given)) return given;
  throw new ApiError(
    "unsupported_media_type",
    `The header 'content-encoding' must be one of: ${CONTENT_CODINGS.join(", ")}, identity.`,
    { detail: "unsupported_encoding" },
  );
}

/**
 * Resolves to the decoded body of `request`, which has `coding`, as `receiveBody` does: `onChunk` receives decoded
 * parts, and decoded and coded bytes are at most `maxBytes` each. Node's threads decode. Rejects with `bad_request` for
 * a body that is broken or cut.
 */
export async function receiveDecoded(
  request: IncomingMessage,
  coding: string,
  maxBytes: number,
  onChunk: (chunk: Buffer) => void,
): Promise<Buffer> {
  const decoder = DECODERS[coding]?.();
  if (!decoder) throw new Error("a coding without a decoder");
  if (request.destroyed) throw bodyBrokeOff();
  let bytes = 0;
  const count = (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > maxBytes) decoder.destroy(bodyTooLarge(maxBytes));
  };
  const breakOff = () => decoder.destroy(bodyBrokeOff());
  request.on("data", count).once("error", breakOff).pipe(decoder);
  try {
    return await receiveBody(decoder, 0, maxBytes, onChunk);
  } catch (error) {
    throw error instanceof ApiError ? error : unclear(`The body is not whole and valid ${coding}.`);
  } finally {
    // The reply to a refused body handles its unread rest.
    request.off("data", count).off("error", breakOff).unpipe(decoder);
    decoder.destroy();
  }
}

function unclear(message: string): ApiError {
  return new ApiError("bad_request", message, { detail: "unclear_encoding" });
}
