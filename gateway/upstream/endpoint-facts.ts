import { Modality, type ModelDescription } from "../../proto/gen/svc/inference/v1/node_service.ts";
import { type DescribedModel, describedModel } from "./described-model.ts";
import type { Endpoint } from "./endpoint/endpoint.ts";
import { type PromptBound, promptBounds } from "./prompt-bound.ts";

type Fact = { readonly isUp: boolean; readonly description: ModelDescription | undefined };

/** What was put together from all facts. */
type Summary<E> = {
  readonly up: readonly E[];
  readonly described: DescribedModel | undefined;
  readonly acceptsImages: boolean;
  readonly promptBounds: readonly PromptBound[];
};

/**
 * Knows which endpoints of a cluster are up, and what they say of its model. What all of them come to is put together
 * when it is asked for after a change, not for every request.
 */
export class EndpointFacts<E extends Pick<Endpoint, "description"> = Endpoint> {
  readonly #model: string;
  readonly #facts = new Map<E, Fact>();
  #summary: Summary<E> | undefined;
  #lastDescribed: DescribedModel | undefined;

  /** Knows no endpoints yet. `model` is the catalog id of the model. */
  constructor(model: string) {
    this.#model = model;
  }

  /** The endpoints that may get requests now. */
  get up(): readonly E[] {
    return this.#summed().up;
  }

  /**
   * What the endpoints that are up say of the model, as far as it holds on all of them; what was last known while none
   * is up, and undefined until one has been.
   */
  get described(): DescribedModel | undefined {
    return this.#summed().described;
  }

  /** Whether some endpoint takes images, be it up or not. */
  get acceptsImages(): boolean {
    return this.#summed().acceptsImages;
  }

  /** What bounds the prompts that the endpoints take, be they up or not; none where one of them does not say enough. */
  get promptBounds(): readonly PromptBound[] {
    return this.#summed().promptBounds;
  }

  /** Notes whether an endpoint is up, and what it says now. Returns whether one of them has changed. */
  note(endpoint: E, isUp: boolean): boolean {
    const before = this.#facts.get(endpoint);
    const description = endpoint.description(this.#model);
    if (before?.isUp === isUp && before.description === description) return false;
    this.#facts.set(endpoint, { isUp, description });
    // So that something is known even if nobody asks before it is down again.
    if (isUp && description) this.#lastDescribed ??= describedModel([description]);
    this.#summary = undefined;
    return true;
  }

  /** Forgets an endpoint that has left. */
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
