import { Capability, Modality, type ModelDescription } from "../../proto/gen/svc/inference/v1/node_service.ts";

/** What a model can do on every node that serves it. */
export type DescribedModel = {
  /** The most tokens of prompt and answer together, on the node that has the fewest. */
  readonly contextWindow: number;
  /** The most tokens of an answer, on the node that has the fewest. */
  readonly maxOutputTokens: number;
  /** Whether some node takes images: it is then sent the requests that have any. */
  readonly acceptsImages: boolean;
  /** The capabilities that all nodes have. */
  readonly capabilities: ReadonlySet<Capability>;
};

/**
 * Returns what holds on all nodes that describe a model; undefined where none of them knows its window. A node that is
 * still to find out about itself says 0, and is left out.
 */
export function describedModel(descriptions: readonly ModelDescription[]): DescribedModel | undefined {
  const known = descriptions.filter(({ contextWindow }) => contextWindow > 0);
  const [first, ...others] = known;
  if (!first) return undefined;
  const contextWindow = Math.min(...known.map((one) => one.contextWindow));
  const answers = known.map(({ maxOutputTokens }) => maxOutputTokens).filter((tokens) => tokens > 0);
  const capabilities = first.capabilities.filter((one) => others.every((other) => other.capabilities.includes(one)));
  return {
    contextWindow,
    maxOutputTokens: Math.min(contextWindow, ...answers),
    acceptsImages: known.some(({ inputModalities }) => inputModalities.includes(Modality.IMAGE)),
    capabilities: new Set(capabilities.filter((one) => one !== Capability.UNSPECIFIED)),
  };
}
