import { Metadata, type ServerWritableStream } from "@grpc/grpc-js";
import type { FailedCall } from "../../deploy/runtime/grpc/failed-call.ts";
import type {
  Finished,
  GenerateRequest,
  GenerateResponse,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { OrcaLoadReport } from "../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import type { GenerationSink } from "../calls/generation-call.ts";
import type { EngineError } from "../errors.ts";
import { LOAD_TRAILER, requestCost } from "../load/load-report.ts";

/** A Generate call as grpc-js gives it. */
export type GenerateStream = ServerWritableStream<GenerateRequest, GenerateResponse>;

/**
 * Returns the caller of Generate as a generation sees it. A whole answer ends with its cost in the trailer. `failed`
 * turns an error into a gRPC status.
 */
export function generationSink(call: GenerateStream, failed: (error: EngineError) => FailedCall): GenerationSink {
  return {
    write: (message) => call.write(message),
    onDrain: (listener) => call.on("drain", listener),
    end: (finished) => call.end(costTrailer(finished)),
    fail: (error) => {
      // Nobody hears a status on a call that is gone.
      if (!call.cancelled) call.emit("error", failed(error));
    },
  };
}

function costTrailer({ usage }: Finished): Metadata {
  const trailer = new Metadata();
  if (usage) trailer.set(LOAD_TRAILER, Buffer.from(OrcaLoadReport.encode(requestCost(usage)).finish()));
  return trailer;
}
