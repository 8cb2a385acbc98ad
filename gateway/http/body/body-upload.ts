import type { IncomingMessage } from "node:http";
import { bodyTooLarge } from "../access/request-hygiene.ts";
import { bodyBrokeOff } from "../fastify-error.ts";

/**
 * The number of parts of a body that are kept as they came before they are joined. Each costs some hundred bytes beside
 * its own, so that a body of one-byte parts would take up many times what it is allowed to be.
 */
const MAX_LOOSE_PARTS = 1_024;

/**
 * Resolves to the body of a request, once it is whole; `onChunk` gets its parts as they arrive, and may refuse the rest
 * by throwing. Rejects with what `onChunk` threw, with ApiError `request_too_large` for more than `maxBytes` bytes,
 * without reading what is announced as more, and when the upload breaks off: with `bodyBrokeOff`, or with Node's own
 * error. Nothing is destroyed: what is left of a body is for the answer to deal with.
 */
export function receiveBody(
  request: IncomingMessage,
  maxBytes: number,
  onChunk: (chunk: Buffer) => void,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (Number(request.headers["content-length"] ?? 0) > maxBytes) return reject(bodyTooLarge());
    // Of one that broke off before now, nothing more would be heard.
    if (request.destroyed) return reject(bodyBrokeOff());
    const joined: Buffer[] = [];
    let loose: Buffer[] = [];
    let bytes = 0;
    const keep = (chunk: Buffer) => {
      loose.push(chunk);
      if (loose.length < MAX_LOOSE_PARTS) return;
      joined.push(Buffer.concat(loose));
      loose = [];
    };
    const listenNoMore = () => request.off("data", onData).off("end", onEnd).off("error", onError);
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      try {
        if (bytes > maxBytes) throw bodyTooLarge();
        onChunk(chunk);
        keep(chunk);
      } catch (error) {
        onError(error);
      }
    };
    const onEnd = () => {
      listenNoMore();
      resolve(Buffer.concat([...joined, ...loose], bytes));
    };
    const onError = (error: unknown) => {
      listenNoMore();
      reject(error);
    };
    request.on("data", onData).on("end", onEnd).on("error", onError);
  });
}
