import { Capability, Modality, type ModelDescription } from "../../proto/gen/svc/inference/v1/node_service.ts";

/** The capabilities of a model on every node that serves it. */
export type DescribedModel = {
  /** The most tokens of prompt and answer together, on the node with the fewest. */
  readonly contextWindow: number;
  /** The most tokens of an answer, on the node with the fewest. */
  readonly maxOutputTokens: number;
  /** Whether some node takes images: it receives the requests with images. */
  readonly acceptsImages: boolean;
  /** The capabilities that all nodes have. */
  readonly capabilities: ReadonlySet<Capability>;
};

/**
 * Returns the properties common to all nodes that describe a model; undefined where none of them reports its window. A
 * node that has not determined its window yet reports 0, and is left out.
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
