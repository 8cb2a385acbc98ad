import type { BackendKind } from "../backend-kind.ts";
import { SimulatorBackend } from "./simulator-backend.ts";
import { simulatorSchema } from "./simulator-options.ts";

/** The kind of backend that makes up tokens at set rates: `kind: simulator` in the configuration. */
export const simulator: BackendKind<typeof simulatorSchema> = {
  schema: simulatorSchema,
  create: (config, node) => new SimulatorBackend({ ...config, ...node }),
};
