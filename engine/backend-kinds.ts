import * as z from "zod";
import type { BackendMaker } from "./backends/backend-kind.ts";
import { llama } from "./backends/llama/kind.ts";
import { openAiCompatible } from "./backends/openai-compatible/kind.ts";
import { scripted } from "./backends/scripted/kind.ts";
import { simulator } from "./backends/simulator/kind.ts";

/** All kinds of backend, by the name that a configuration gives in `backend.kind`. */
const KINDS = { simulator, llama, scripted, "openai-compatible": openAiCompatible };

type KindName = keyof typeof KINDS;
type ConfigByKind = { readonly [Kind in KindName]: Readonly<z.output<(typeof KINDS)[Kind]["schema"]>> };

const MAKERS: { readonly [Kind in KindName]: BackendMaker<ConfigByKind[Kind]> } = KINDS;

const { simulator: first, ...others } = KINDS;

/** The schema of the `backend` setting of a node: the settings of one kind of backend. */
export const backendSchema = z.discriminatedUnion("kind", [
  first.schema,
  ...Object.values(others).map(({ schema }) => schema),
]);

/** Returns what makes the backend that is configured; the configuration is to be handed to its functions. */
export function backendKind<Kind extends KindName>(config: { readonly kind: Kind }): BackendMaker<ConfigByKind[Kind]> {
  return MAKERS[config.kind];
}
