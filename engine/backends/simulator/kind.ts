import type { BackendKind } from "../backend-kind.ts";
import { SimulatorBackend } from "./simulator-backend.ts";
import { simulatorSchema } from "./simulator-options.ts";

/** The backend kind that generates text at configured rates without a model: `kind: simulator` in the configuration. */
export const simulator: BackendKind<typeof simulatorSchema> = {
  schema: simulatorSchema,
  create: (config, node) => new SimulatorBackend({ ...config, ...node }),
};
