import * as z from "zod";
import type { BackendMaker } from "./backends/backend-kind.ts";
import { llama } from "./backends/llama/kind.ts";
import { openAiCompatible } from "./backends/openai-compatible/kind.ts";
import { scripted } from "./backends/scripted/kind.ts";
import { simulator } from "./backends/simulator/kind.ts";

/** All backend kinds, keyed by the value of `backend.kind` in the configuration. */
const KINDS = { simulator, llama, scripted, "openai-compatible": openAiCompatible };

type KindName = keyof typeof KINDS;
type ConfigByKind = { readonly [Kind in KindName]: Readonly<z.output<(typeof KINDS)[Kind]["schema"]>> };

const MAKERS: { readonly [Kind in KindName]: BackendMaker<ConfigByKind[Kind]> } = KINDS;

const { simulator: first, ...others } = KINDS;

/** The schema of a node's `backend` setting: a union of the settings of all kinds. */
export const backendSchema = z.discriminatedUnion("kind", [
  first.schema,
  ...Object.values(others).map(({ schema }) => schema),
]);

/** Returns the maker of the configured backend. Its functions take this configuration. */
export function backendKind<Kind extends KindName>(config: { readonly kind: Kind }): BackendMaker<ConfigByKind[Kind]> {
  return MAKERS[config.kind];
}
