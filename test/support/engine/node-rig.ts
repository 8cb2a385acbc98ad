import { onTestFinished } from "vitest";
import { NodeClient } from "./node-client.ts";
import { type Script, ScriptedBackend } from "./scripted-backend.ts";
import { startNode } from "./start-node.ts";

/** Creates a client of a node, which the end of the test closes. */
export function clientOf(...given: ConstructorParameters<typeof NodeClient>): NodeClient {
  const client = new NodeClient(...given);
  onTestFinished(() => client.close());
  return client;
}

/** Starts a node, as `startNode` does, and a client of it. The end of the test stops both. */
export async function nodeOf(...given: Parameters<typeof startNode>) {
  const node = await startNode(...given);
  onTestFinished(() => node.stop());
  return { node, client: clientOf(node.address) };
}

export function scripted(script: Script, slots = 8): ScriptedBackend {
  return new ScriptedBackend({ nodeId: "n1", models: ["svc-qwen"], slots, script });
}
