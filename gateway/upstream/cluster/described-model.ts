import { Capability, Modality, type ModelDescription } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import { type PromptBound, promptBounds } from "../request/prompt-bound.ts";

export type DescribedModel = {
  /** The most tokens of prompt and answer together, on the node with the fewest. */
  readonly contextWindow: number;
  /** The most tokens of an answer, on the node with the fewest. */
  readonly maxOutputTokens: number;
  /** Whether some node takes images: it receives the requests with images. */
  readonly acceptsImages: boolean;
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
    acceptsImages: known.some(takesImages),
    capabilities: new Set(capabilities.filter((one) => one !== Capability.UNSPECIFIED)),
  };
}

export type ClusterSummary = {
  readonly up: readonly Endpoint[];
  /** What all endpoints that are up have in common; undefined where none of them reports its window. */
  readonly described: DescribedModel | undefined;
  /** Whether some endpoint takes images, up or not. */
  readonly acceptsImages: boolean;
  /** The prompt limits of the endpoints, up or not; empty where one of them does not report enough. */
  readonly promptBounds: readonly PromptBound[];
};

export type Summarized = {
  readonly endpoint: Endpoint;
  readonly available: boolean;
  readonly description: ModelDescription | undefined;
};

export function summaryOf(endpoints: readonly Summarized[]): ClusterSummary {
  const up = endpoints.filter(({ available }) => available);
  return {
    up: up.map(({ endpoint }) => endpoint),
    described: describedModel(up.flatMap(({ description }) => description ?? [])),
    acceptsImages: endpoints.some(({ description }) => description !== undefined && takesImages(description)),
    promptBounds: promptBounds(endpoints.map(({ description }) => description)),
  };
}

function takesImages({ inputModalities }: ModelDescription): boolean {
  return inputModalities.includes(Modality.IMAGE);
}
