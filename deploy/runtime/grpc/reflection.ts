import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { ReflectionService } from "@grpc/reflection";
import { projectFolder } from "../files/project-folder.ts";

/**
 * Returns `grpc.reflection.v1.ServerReflection`, and its `v1alpha`, for the services of the contract, so that tools
 * such as grpcurl need no files. It serves the descriptors that `npm run proto` compiled, which are part of the
 * deployment: those that the library generates from `.proto` files name imports that it does not have. `services` are
 * the full names of the listed services; by default all of the contract.
 */
export function contractReflection(services?: readonly string[]): ReflectionService {
  const bytes = readFileSync(join(projectFolder(), "proto/gen/descriptors.binpb"));
  const { file } = fromBinary(FileDescriptorSetSchema, bytes);
  const fileDescriptorProtos = file.map((one) => Buffer.from(toBinary(FileDescriptorProtoSchema, one)));
  const contract = { format: "Protocol Buffer 3 DescriptorProto", type: {}, fileDescriptorProtos } as const;
  return new ReflectionService({ contract }, services && { services: [...services] });
}
