import type { BackendKind } from "../backend-kind.ts";
import { SimulatorBackend } from "./simulator-backend.ts";
import { simulatorSchema } from "./simulator-options.ts";

/** Made-up tokens at set rates. */
export const simulator: BackendKind<typeof simulatorSchema> = {
  schema: simulatorSchema,
  create: (config, node) => new SimulatorBackend({ ...config, ...node }),
};
