import type { ServerInterceptingCall, ServerInterceptingCallInterface, ServerInterceptor } from "@grpc/grpc-js";
import type { MonotonicClock } from "../../deploy/runtime/time/clock.ts";
import { InferenceServiceService } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { LoopTurns } from "../backends/loop-turns.ts";
import { EngineError, toFailedCall } from "../errors.ts";
import { decodeCountTokens, decodeGenerate, MANY_BYTES } from "./decode-request.ts";

/** The time after which the reading of one request lets others have a turn, in milliseconds. */
const SLICE_MS = 2;

/** Reads a request, and yields where others may have a turn, as `decodeGenerate` does. */
type Decode = (bytes: Uint8Array, mayGoOn: () => boolean) => Generator<void, unknown>;

/** A request that has come and is to be read in turns. */
class Undecoded {
  readonly bytes: Uint8Array;
  readonly decode: Decode;

  constructor(bytes: Uint8Array, decode: Decode) {
    this.bytes = bytes;
    this.decode = decode;
  }
}

const { generate, countTokens } = InferenceServiceService;

/**
 * The definition of `svc.inference.v1.InferenceService` for a server that has the interceptor `decodedInTurns`, without
 * which its handlers would be given requests that nobody has read.
 */
export const INFERENCE_SERVICE = {
  generate: { ...generate, requestDeserialize: laterWhereLarge(generate.requestDeserialize, decodeGenerate) },
  countTokens: {
    ...countTokens,
    requestDeserialize: laterWhereLarge(countTokens.requestDeserialize, decodeCountTokens),
  },
};

/**
 * Makes the interceptor that reads large requests of `INFERENCE_SERVICE`: a few milliseconds at a turn of the event loop,
 * one request after the other, as a conversation of a hundred thousand short messages takes a tenth of a second. Small
 * ones have been read before, at once. What cannot be read fails with INVALID_REQUEST.
 */
export function decodedInTurns(clock: MonotonicClock): ServerInterceptor {
  const turns = new LoopTurns();
  const decoded = async ({ bytes, decode }: Undecoded, isLeft: () => boolean): Promise<unknown> => {
    let untilMs = 0;
    const reading = decode(bytes, () => clock.nowMs() < untilMs);
    for (;;) {
      // Whose request is read is not known before: each gets one slice after the other.
      await turns.next("");
      if (isLeft()) return undefined;
      untilMs = clock.nowMs() + SLICE_MS;
      const step = reading.next();
      if (step.done) return step.value;
    }
  };
  return (_method, call: ServerInterceptingCallInterface) => {
    const start = call.start.bind(call);
    call.start = (listener) => {
      let isLeft = false;
      let isReading = false;
      let isHalfClosed = false;
      start({
        onReceiveMetadata: (metadata) => listener.onReceiveMetadata(metadata),
        onReceiveMessage: (message) => {
          if (!(message instanceof Undecoded)) return listener.onReceiveMessage(message);
          isReading = true;
          void decoded(message, () => isLeft).then(
            (request) => {
              if (isLeft) return;
              isReading = false;
              const waits = isHalfClosed;
              listener.onReceiveMessage(request);
              if (waits) listener.onReceiveHalfClose();
            },
            () => {
              if (!isLeft)
                call.sendStatus(toFailedCall(new EngineError("INVALID_REQUEST", "The request cannot be read.")));
            },
          );
        },
        onReceiveHalfClose: () => {
          if (isReading) isHalfClosed = true;
          else listener.onReceiveHalfClose();
        },
        onCancel: () => {
          isLeft = true;
          listener.onCancel();
        },
      });
    };
    return call as ServerInterceptingCall;
  };
}

/** Returns what reads small requests at once, and keeps large ones as they are. */
function laterWhereLarge<Request>(
  atOnce: (bytes: Buffer) => Request,
  decode: (bytes: Uint8Array, mayGoOn: () => boolean) => Generator<void, Request>,
): (bytes: Buffer) => Request {
  return (bytes) => {
    if (bytes.length < MANY_BYTES) return atOnce(bytes);
    // The interceptor puts the request in its place before any handler sees it.
    return new Undecoded(bytes, decode) as Request;
  };
}
