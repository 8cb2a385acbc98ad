import { Modality, type ModelDescription } from "../../proto/gen/svc/inference/v1/node_service.ts";
import { type DescribedModel, describedModel } from "./described-model.ts";
import type { Endpoint } from "./endpoint/endpoint.ts";
import { type PromptBound, promptBounds } from "./prompt-bound.ts";

type Fact = { readonly isUp: boolean; readonly description: ModelDescription | undefined };

/** The summary of all facts. */
type Summary<E> = {
  readonly up: readonly E[];
  readonly described: DescribedModel | undefined;
  readonly acceptsImages: boolean;
  readonly promptBounds: readonly PromptBound[];
};

/**
 * Tracks which endpoints of a cluster are available, and their descriptions of its model. The summary is computed at
 * the first read after a change, not for every request.
 */
export class EndpointFacts<E extends Pick<Endpoint, "description"> = Endpoint> {
  readonly #model: string;
  readonly #facts = new Map<E, Fact>();
  #summary: Summary<E> | undefined;
  #lastDescribed: DescribedModel | undefined;

  /** `model` is the catalog id of the model. */
  constructor(model: string) {
    this.#model = model;
  }

  /** The endpoints that may receive requests now. */
  get up(): readonly E[] {
    return this.#summed().up;
  }

  /**
   * The properties of the model that hold on all available endpoints; the last ones while none is available, and
   * undefined until one has been.
   */
  get described(): DescribedModel | undefined {
    return this.#summed().described;
  }

  /** Whether some endpoint takes images, available or not. */
  get acceptsImages(): boolean {
    return this.#summed().acceptsImages;
  }

  /** The prompt limits of the endpoints, available or not; empty where one of them does not report enough. */
  get promptBounds(): readonly PromptBound[] {
    return this.#summed().promptBounds;
  }

  /** Records whether an endpoint is available, and its description. Returns whether one of them has changed. */
  note(endpoint: E, isUp: boolean): boolean {
    const before = this.#facts.get(endpoint);
    const description = endpoint.description(this.#model);
    if (before?.isUp === isUp && before.description === description) return false;
    this.#facts.set(endpoint, { isUp, description });
    // Kept even where no read happens before the endpoint becomes unavailable.
    if (isUp && description) this.#lastDescribed ??= describedModel([description]);
    this.#summary = undefined;
    return true;
  }

  /** Removes an endpoint that has left. */
  forget(endpoint: E): void {
    if (this.#facts.delete(endpoint)) this.#summary = undefined;
  }

  #summed(): Summary<E> {
    if (this.#summary) return this.#summary;
    const up: E[] = [];
    const descriptions: ModelDescription[] = [];
    let acceptsImages = false;
    for (const [endpoint, { isUp, description }] of this.#facts) {
      acceptsImages ||= description?.inputModalities.includes(Modality.IMAGE) ?? false;
      if (!isUp) continue;
      up.push(endpoint);
      if (description) descriptions.push(description);
    }
    this.#lastDescribed = describedModel(descriptions) ?? this.#lastDescribed;
    const bounds = promptBounds([...this.#facts.values()].map(({ description }) => description));
    this.#summary = { up, described: this.#lastDescribed, acceptsImages, promptBounds: bounds };
    return this.#summary;
  }
}
