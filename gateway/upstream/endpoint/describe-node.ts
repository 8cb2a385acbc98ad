import { type Client, type ServiceError, status } from "@grpc/grpc-js";
import { type ModelDescription, NodeServiceService } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { healthFailure } from "./health-failure.ts";

/** A node's answer: the description of its models, or none, with the reason `why` for operators. */
export type NodeAnswer =
  | {
      readonly kind: "described";
      readonly models: readonly ModelDescription[];
      /**
       * The time at which the node's process began to serve, in milliseconds of its wall clock; 0 where it does not
       * report it.
       */
      readonly startedAtMs: number;
    }
  /** A node that speaks gRPC, but not this contract. */
  | { readonly kind: "unknown_contract" }
  | { readonly kind: "unreachable"; readonly why: string };

/** Requests a node's description, until `deadline` in milliseconds of the wall clock. Never rejects. */
export function describeNode(client: Client, deadline: number): Promise<NodeAnswer> {
  const { path, requestSerialize, responseDeserialize } = NodeServiceService.describeNode;
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, {}, { deadline }, (error, reply) => {
      if (reply) resolve({ kind: "described", models: reply.models, startedAtMs: reply.startedAt?.getTime() ?? 0 });
      else resolve(failed(error as ServiceError));
    });
  });
}

function failed(error: ServiceError): NodeAnswer {
  if (error.code === status.UNIMPLEMENTED) return { kind: "unknown_contract" };
  return { kind: "unreachable", why: healthFailure(error) };
}
