import * as z from "zod";
import { createBackend, engineConfigSchema } from "../../../engine/config.ts";
import { runNode } from "../../../engine/run-node.ts";
import { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ScriptedBackend } from "./scripted-backend.ts";
import { SIMULATOR_DEFAULTS, SimulatorBackend, type SimulatorOptions } from "./simulator/simulator-backend.ts";

/*
 * The program of an engine node with the backends of tests: a simulated engine, a transcript of canonical events, or a
 * backend of the product.
 */

const { backend, ...settings } = engineConfigSchema.shape;
const schema = z.strictObject({
  ...settings,
  backend: z.union([
    z.looseObject({ kind: z.literal("simulator") }),
    z.strictObject({ kind: z.literal("transcript"), events: z.array(z.unknown()), slots: z.int() }),
    backend,
  ]),
});

await runNode(async () => ({
  schema,
  createBackend(backend, node, work) {
    switch (backend.kind) {
      case "simulator":
        return new SimulatorBackend({ ...SIMULATOR_DEFAULTS, ...(backend as Partial<SimulatorOptions>), ...node });
      case "transcript": {
        const { slots, events } = backend;
        return new ScriptedBackend({ ...node, slots, script: () => events.map((event) => [Event.fromJSON(event)]) });
      }
      default:
        return createBackend(backend, node, work);
    }
  },
}));
