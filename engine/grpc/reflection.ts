import { join } from "node:path";
import { loadSync } from "@grpc/proto-loader";
import { ReflectionService } from "@grpc/reflection";
import { projectFolder } from "../../deploy/runtime/files/project-folder.ts";

/**
 * Returns `grpc.reflection.v1.ServerReflection` for the services of the contract, so that tools such as grpcurl need no
 * files. It reads the `.proto` files themselves, which are therefore part of what is deployed.
 */
export function contractReflection(): ReflectionService {
  const files = ["svc/inference/v1/inference_service.proto", "svc/inference/v1/node_service.proto"];
  return new ReflectionService(loadSync(files, { keepCase: true, includeDirs: [join(projectFolder(), "proto")] }));
}
