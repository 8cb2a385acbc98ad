import type { IncomingMessage } from "node:http";
import { FairSlices } from "../../../deploy/runtime/queue/fair-slices.ts";
import { loopWaits } from "../../../deploy/runtime/threads/loop-waits.ts";
import { restBehind } from "../../../deploy/runtime/threads/processor-waits.ts";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { bodyTooLarge } from "../access/request-hygiene.ts";
import { bodyBrokeOff } from "../fastify-error.ts";

/**
 * The number of parts of a body that are kept as they came before they are joined. Each costs some hundred bytes beside
 * its own, so that a body of one-byte parts would take up many times what it is allowed to be.
 */
const MAX_LOOSE_PARTS = 1_024;

/** How much of a long body is taken in one piece, in bytes: as much as Node reads from a connection at once. */
const PIECE_BYTES = 64 * 1024;
/** The pieces of long bodies, of all callers together, that are taken in one turn of the event loop. */
const PIECES_PER_TURN = 4;

/** Long bodies are taken in turns: of each connection Node reads 2 MB before it looks at another one. */
const turns = new FairSlices(PIECES_PER_TURN);

/** The bytes of a body that are taken without a rest: few conversations are longer that have no images. */
const RESTLESS_BYTES = 1024 * 1024;
/** The shortest rest, in milliseconds, which is what a timer can wait, and the longest: with it 33 MB take five seconds. */
const MIN_REST_MS = 1;
const MAX_REST_MS = 10;

/**
 * Begins a piece of a long body. Returns what tells at its end for how long the body is to rest, in milliseconds: as long as
 * the loop has waited for a processor meanwhile, several times over. Taking 33 MB keeps the loop and the sender busy for a
 * tenth of a second, and whoever shares the processors with them waits; where nobody does, no body rests.
 */
function beginPiece(): () => number {
  const begunMs = systemClock.nowMs();
  const waitedMs = loopWaits.totalMs();
  return () => Math.min(MAX_REST_MS, restBehind(systemClock.nowMs() - begunMs, loopWaits.totalMs() - waitedMs));
}

/**
 * The announced size, in bytes, from which a body gets its room at once, and its parts are copied there as they come.
 * Parts that wait to be joined take up twice the body in the end, and leave the memory of the process full of holes.
 */
const OWN_ROOM_BYTES = 128 * 1024;

/**
 * Resolves to the body of a request, once it is whole; `onChunk` gets its parts as they arrive, and may refuse the rest
 * by throwing. Of long bodies a bounded amount is taken in each turn of the event loop, from each `caller` in turn, and behind
 * each piece beyond the first MiB the body rests for as long as what `begin` returned then says. Rejects
 * with what `onChunk` threw, with ApiError `request_too_large` for more than `maxBytes` bytes, without reading what is
 * announced as more, and when the upload breaks off: with `bodyBrokeOff`, or with Node's own error. Nothing is destroyed:
 * what is left of a body is for the answer to deal with.
 */
export function receiveBody(
  request: IncomingMessage,
  maxBytes: number,
  onChunk: (chunk: Buffer) => void,
  caller: string,
  begin: () => () => number = beginPiece,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const announced = Number(request.headers["content-length"] ?? 0);
    if (announced > maxBytes) return reject(bodyTooLarge(maxBytes));
    // Of one that broke off before now, nothing more would be heard.
    if (request.destroyed) return reject(bodyBrokeOff());
    const parts = announced >= OWN_ROOM_BYTES ? new RoomOfParts(announced) : new LooseParts();
    let bytes = 0;
    let pieceBytes = 0;
    let isListening = true;
    const listenNoMore = () => {
      isListening = false;
      request.off("data", onData).off("end", onEnd).off("error", onError);
    };
    let restMs = () => 0;
    const takeTurn = () =>
      turns.run(caller, () => {
        if (!isListening) return;
        if (bytes >= RESTLESS_BYTES) restMs = begin();
        request.resume();
      });
    const waitForTurn = () => {
      pieceBytes = 0;
      request.pause();
      const ms = restMs();
      if (ms < MIN_REST_MS) takeTurn();
      else systemClock.after(ms, takeTurn);
    };
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      pieceBytes += chunk.length;
      try {
        if (bytes > maxBytes) throw bodyTooLarge(maxBytes);
        onChunk(chunk);
        parts.add(chunk);
        if (pieceBytes >= PIECE_BYTES) waitForTurn();
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
