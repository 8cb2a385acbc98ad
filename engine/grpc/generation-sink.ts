import { Metadata, type ServerWritableStream } from "@grpc/grpc-js";
import type { FailedCall } from "../../deploy/runtime/grpc/status-details.ts";
import type {
  Finished,
  GenerateRequest,
  GenerateResponse,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { OrcaLoadReport } from "../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import type { GenerationSink } from "../calls/generation-call.ts";
import type { EngineError } from "../errors.ts";
import { LOAD_TRAILER, requestCost } from "../load/load-report.ts";

export type GenerateStream = ServerWritableStream<GenerateRequest, GenerateResponse>;

/**
 * Returns a generation's sink over a grpc-js call. The trailer of a whole answer carries its cost. `failed` converts an
 * error to a gRPC status.
 */
export function generationSink(call: GenerateStream, failed: (error: EngineError) => FailedCall): GenerationSink {
  return {
    write: (message) => call.write(message),
    onDrain: (listener) => call.on("drain", listener),
    end: (finished) => call.end(costTrailer(finished)),
    fail: (error) => {
      // A cancelled call takes no status.
      if (!call.cancelled) call.emit("error", failed(error));
    },
  };
}

function costTrailer({ usage }: Finished): Metadata {
  const trailer = new Metadata();
  if (usage) trailer.set(LOAD_TRAILER, Buffer.from(OrcaLoadReport.encode(requestCost(usage)).finish()));
  return trailer;
}
