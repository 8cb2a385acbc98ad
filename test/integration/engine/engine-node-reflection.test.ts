import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { credentials, loadPackageDefinition, type ServiceClientConstructor } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { expect, test } from "vitest";
import { nodeOf, scripted } from "../../support/engine/node-rig.ts";
import { fixedSentence } from "../../support/engine/scripted-backend.ts";

const PACKAGE = dirname(createRequire(import.meta.url).resolve("@grpc/reflection/package.json"));

type Listed = { readonly list_services_response: { readonly service: readonly { readonly name: string }[] } };

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

test("a node with reflection lists the contract's services", async () => {
  const { node } = await nodeOf(scripted(fixedSentence), { reflection: true });
  const { list_services_response } = await ask<Listed>(node.address, { list_services: "" });
  const names = list_services_response.service.map(({ name }) => name);
  for (const service of ["InferenceService", "NodeService"]) expect(names).toContain(`svc.inference.v1.${service}`);
});

test("by default a node has no reflection", async () => {
  const { node } = await nodeOf(scripted(fixedSentence));
  await expect(ask(node.address, { list_services: "" })).rejects.toMatchObject({ code: 12 });
});
