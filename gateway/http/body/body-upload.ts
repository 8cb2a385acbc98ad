import type { IncomingMessage } from "node:http";
import { bodyTooLarge } from "../access/request-head.ts";
import { bodyBrokeOff } from "../request-context.ts";

/**
 * Parts of a body that are kept before they are joined. Each costs some hundred bytes of overhead, so a body of
 * one-byte parts would take many times its allowed size.
 */
const MAX_LOOSE_PARTS = 1_024;

/**
 * Announced size, in bytes, from which a body is allocated at once, and its parts are copied as they arrive. Joining
 * parts takes twice the body at the end, and fragments the memory of the process.
 */
const OWN_ROOM_BYTES = 128 * 1024;

/**
 * Resolves to the whole body of a request; `onChunk` receives its parts as they arrive, and may refuse the rest by
 * throwing. Rejects with the error of `onChunk`, with ApiError `request_too_large` for more than `maxBytes` bytes (an
 * announced size above that is refused unread), and when the upload breaks off: with `bodyBrokeOff`, or with Node's own
 * error. The request is not destroyed: the reply handles an unread rest.
 */
export function receiveBody(
  request: IncomingMessage,
  maxBytes: number,
  onChunk: (chunk: Buffer) => void,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const announced = Number(request.headers["content-length"] ?? 0);
    if (announced > maxBytes) return reject(bodyTooLarge(maxBytes));
    // A request that was already aborted emits no events.
    if (request.destroyed) return reject(bodyBrokeOff());
    const parts = announced >= OWN_ROOM_BYTES ? new RoomOfParts(announced) : new LooseParts();
    let bytes = 0;
    const listenNoMore = () => {
      request.off("data", onData).off("end", onEnd).off("error", onError);
    };
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      try {
        if (bytes > maxBytes) throw bodyTooLarge(maxBytes);
        onChunk(chunk);
        parts.add(chunk);
      } catch (error) {
        onError(error);
      }
    };
    const onEnd = () => {
      listenNoMore();
      resolve(parts.joined());
    };
    const onError = (error: unknown) => {
      listenNoMore();
      reject(error);
    };
    request.on("data", onData).on("end", onEnd).on("error", onError);
  });
}

/** The parts of a body whose size is unknown or small. */
class LooseParts {
  readonly #joined: Buffer[] = [];
  #loose: Buffer[] = [];

  add(chunk: Buffer): void {
    this.#loose.push(chunk);
    if (this.#loose.length < MAX_LOOSE_PARTS) return;
    this.#joined.push(Buffer.concat(this.#loose));
    this.#loose = [];
  }

  joined(): Buffer {
    return Buffer.concat([...this.#joined, ...this.#loose]);
  }
}

/** The parts of a large body of known size: Node's parser enforces the announced length. */
class RoomOfParts {
  readonly #room: Buffer;
  #filled = 0;

  constructor(bytes: number) {
    this.#room = Buffer.allocUnsafeSlow(bytes);
  }

  add(chunk: Buffer): void {
    this.#filled += chunk.copy(this.#room, this.#filled);
  }

  joined(): Buffer {
    return this.#room.subarray(0, this.#filled);
  }
}
