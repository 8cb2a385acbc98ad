import type { IncomingMessage } from "node:http";
import { bodyTooLarge } from "../access/request-hygiene.ts";
import { bodyBrokeOff } from "../fastify-error.ts";

/**
 * The number of parts of a body that are kept as they came before they are joined. Each costs some hundred bytes beside
 * its own, so that a body of one-byte parts would take up many times what it is allowed to be.
 */
const MAX_LOOSE_PARTS = 1_024;

/**
 * The announced size, in bytes, from which a body gets its room at once, and its parts are copied there as they come.
 * Parts that wait to be joined take up twice the body in the end, and leave the memory of the process full of holes.
 */
const OWN_ROOM_BYTES = 128 * 1024;

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
    const announced = Number(request.headers["content-length"] ?? 0);
    if (announced > maxBytes) return reject(bodyTooLarge(maxBytes));
    // A body that broke off before now emits nothing more.
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

/** The parts of a body whose size is not known, or small. */
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

/**
 * The parts of a big body whose size is known: Node's parser lets through neither more than that nor an end before it.
 */
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
