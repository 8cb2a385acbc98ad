import type { Readable } from "node:stream";
import { bodyTooLarge } from "../access/request-head.ts";
import { bodyBrokeOff } from "../record/request-context.ts";

/** Least size in bytes to which the buffer of a body without an announced size grows. */
const LEAST_BUFFER_BYTES = 4 * 1024;

/**
 * Resolves to the whole body of a request, of which `announced` bytes are known (0 if unknown); `onChunk` receives its
 * parts as they arrive, and may refuse the rest by throwing. Rejects with the error of `onChunk`, with ApiError
 * `request_too_large` for more than `maxBytes` bytes (an announced size above that is refused unread), and when the
 * upload breaks off: with `bodyBrokeOff`, or with Node's own error. The request is not destroyed: the reply handles an
 * unread rest.
 */
export function receiveBody(
  request: Readable,
  announced: number,
  maxBytes: number,
  onChunk: (chunk: Buffer) => void,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (announced > maxBytes) return reject(bodyTooLarge(maxBytes));
    // A request that was already aborted emits no events.
    if (request.destroyed) return reject(bodyBrokeOff());
    // Parts are copied as they arrive: joining them would take twice the body at the end, and each costs some hundred
    // bytes of overhead, so that a body of one-byte parts would take many times its allowed size.
    let buffer = Buffer.allocUnsafe(announced);
    let bytes = 0;
    const listenNoMore = () => {
      request.off("data", onData).off("end", onEnd).off("error", onError);
    };
    const onData = (chunk: Buffer) => {
      try {
        const needed = bytes + chunk.length;
        if (needed > maxBytes) throw bodyTooLarge(maxBytes);
        onChunk(chunk);
        if (needed > buffer.length) {
          const grown = Buffer.allocUnsafe(Math.max(needed, LEAST_BUFFER_BYTES, Math.min(maxBytes, 2 * buffer.length)));
          buffer.copy(grown, 0, 0, bytes);
          buffer = grown;
        }
        chunk.copy(buffer, bytes);
        bytes = needed;
      } catch (error) {
        onError(error);
      }
    };
    const onEnd = () => {
      listenNoMore();
      resolve(buffer.subarray(0, bytes));
    };
    const onError = (error: unknown) => {
      listenNoMore();
      reject(error);
    };
    request.on("data", onData).on("end", onEnd).on("error", onError);
  });
}
