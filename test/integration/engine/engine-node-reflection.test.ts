import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { create, createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { credentials, loadPackageDefinition, type ServiceClientConstructor } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { expect, test } from "vitest";
import { nodeOf, scripted } from "../../support/engine/node-rig.ts";
import { fixedSentence } from "../../support/engine/scripted-backend.ts";

const PACKAGE = dirname(createRequire(import.meta.url).resolve("@grpc/reflection/package.json"));

type Listed = { readonly list_services_response: { readonly service: readonly { readonly name: string }[] } };
type Files = { readonly file_descriptor_response: { readonly file_descriptor_proto: readonly Uint8Array[] } };

/** Asks a node's reflection service one question. */
function ask<Answer>(address: string, question: object): Promise<Answer> {
  const file = join(PACKAGE, "build/proto/grpc/reflection/v1/reflection.proto");
  const packages = loadPackageDefinition(loadSync(file, { keepCase: true })) as unknown as {
    grpc: { reflection: { v1: { ServerReflection: ServiceClientConstructor } } };
  };
  const client = new packages.grpc.reflection.v1.ServerReflection(address, credentials.createInsecure());
  return new Promise((resolve, reject) => {
    const call = client.ServerReflectionInfo?.() as unknown as NodeJS.EventEmitter & {
      write(message: object): void;
      end(): void;
    };
    call.on("data", resolve);
    call.on("error", reject);
    call.on("status", () => client.close());
    call.write(question);
    call.end();
  });
}

function inOrderOfImport(files: readonly FileDescriptorProto[]): FileDescriptorProto[] {
  const ordered = new Set<FileDescriptorProto>();
  const add = (file: FileDescriptorProto) => {
    for (const name of file.dependency) {
      const found = files.find((other) => other.name === name);
      if (!found) throw new Error(`${name} is missing`);
      add(found);
    }
    ordered.add(file);
  };
  for (const file of files) add(file);
  return [...ordered];
}

test("a node with reflection lists the contract's services, with their whole descriptors", async () => {
  const { node } = await nodeOf(scripted(fixedSentence), { reflection: true });
  const { list_services_response } = await ask<Listed>(node.address, { list_services: "" });
  const names = list_services_response.service.map(({ name }) => name);
  for (const service of ["svc.inference.v1.InferenceService", "svc.inference.v1.NodeService"]) {
    expect(names).toContain(service);
    const { file_descriptor_response } = await ask<Files>(node.address, { file_containing_symbol: service });
    const file = file_descriptor_response.file_descriptor_proto.map((bytes) =>
      fromBinary(FileDescriptorProtoSchema, bytes),
    );
    // Throws if an import is missing or a name does not resolve.
    const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: inOrderOfImport(file) }));
    expect(registry.getService(service)?.methods.length).toBeGreaterThan(0);
  }
});

test("by default a node has no reflection", async () => {
  const { node } = await nodeOf(scripted(fixedSentence));
  await expect(ask(node.address, { list_services: "" })).rejects.toMatchObject({ code: 12 });
});
