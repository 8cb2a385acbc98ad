import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { credentials, loadPackageDefinition, type ServiceClientConstructor } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { expect, test } from "vitest";
import { fixedSentence, ScriptedBackend } from "../../../engine/backends/scripted/scripted.ts";
import { startNode } from "../../support/engine/start-node.ts";

const PACKAGE = dirname(createRequire(import.meta.url).resolve("@grpc/reflection/package.json"));

type Listed = { readonly list_services_response: { readonly service: readonly { readonly name: string }[] } };

/** What a node tells a reflection client about its services. */
function listServices(address: string): Promise<Listed> {
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
    call.write({ list_services: "" });
    call.end();
  });
}

function backend(): ScriptedBackend {
  return new ScriptedBackend({ nodeId: "n1", models: ["svc-qwen"], slots: 1, script: fixedSentence });
}

test("a node that may be asked names the contract's services", async () => {
  const node = await startNode(backend(), { reflection: true });
  try {
    const { list_services_response } = await listServices(node.address);
    const names = list_services_response.service.map(({ name }) => name);
    expect(names).toContain("svc.inference.v1.InferenceService");
    expect(names).toContain("svc.inference.v1.NodeService");
  } finally {
    await node.stop();
  }
});

test("by default a node tells nothing about itself", async () => {
  const node = await startNode(backend());
  try {
    await expect(listServices(node.address)).rejects.toMatchObject({ code: 12 });
  } finally {
    await node.stop();
  }
});
