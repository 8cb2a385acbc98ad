import type { AdmissionController } from "../admission/admission-controller.ts";
import type { Admitted, PromptReaders, RoutedRequest } from "../admission/slot-request.ts";
import type { EndpointSet } from "../load-balancing/endpoint-set.ts";
import type { EndpointView } from "../load-balancing/endpoint-view.ts";
import type { PolicyPick } from "../load-balancing/policy.ts";

/** The unread tokens up to which an answering node reads a prompt itself: a move would cost more than it spares others. */
export const LEAST_MOVED_TOKENS = 8_192;
/** The unread tokens on the prefill node, in multiples of those on the answering one, from which a move does not pay. */
const MOST_RATIO = 1.5;
/** The outstanding prefill with which a prefill node gets no further prompt, in seconds. */
const MAX_AHEAD_SECONDS = 2;

type Grouped = { readonly description: { readonly handOverGroup: string } | undefined };

type Members = { member(address: string): Grouped | undefined };

/** What the rule needs of the prefill nodes of a cluster. */
export type PrefillNodes<Member> = {
  readonly cluster: Members & { readonly endpointSet: EndpointSet };
  readonly admission: Pick<AdmissionController<Member>, "takeAtOnce">;
};

/**
 * The rule by which a prompt is read elsewhere than it is answered: on the prefill node of a cluster that will have read
 * it first, where much is unread on the answering node, not much more there, and one is free now. None waits for them.
 */
export class PrefillPool<Member> implements PromptReaders<Member> {
  readonly #answering: Members;
  readonly #nodes: PrefillNodes<Member>;
  readonly #leastTokens: number;

  /** `leastTokens` is `LEAST_MOVED_TOKENS` but in tests with small models. */
  constructor(answering: Members, nodes: PrefillNodes<Member>, leastTokens: number) {
    this.#answering = answering;
    this.#nodes = nodes;
    this.#leastTokens = leastTokens;
  }

  get mayRead(): boolean {
    return this.#nodes.cluster.endpointSet.withCapacity.all.some(isFree);
  }

  take({ endpoint, uncachedTokens = 0 }: PolicyPick, request: RoutedRequest): Admitted<Member> | undefined {
    const { admission, cluster } = this.#nodes;
    const group = groupOf(this.#answering.member(endpoint.address));
    if (uncachedTokens <= this.#leastTokens || group === "") return undefined;
    return admission.takeAtOnce(request, {
      fits: (view) => isFree(view) && groupOf(cluster.member(view.address)) === group,
      pays: (pick) => (pick.uncachedTokens ?? Number.POSITIVE_INFINITY) < MOST_RATIO * uncachedTokens,
    });
  }
}

function isFree({ outstandingPrefillTokens, prefillTokensPerSecond }: EndpointView): boolean {
  return outstandingPrefillTokens <= MAX_AHEAD_SECONDS * prefillTokensPerSecond;
}

function groupOf(member: Grouped | undefined): string {
  return member?.description?.handOverGroup ?? "";
}
