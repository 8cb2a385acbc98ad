import { status } from "@grpc/grpc-js";
import type { Event, Started } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Capability, type ModelDescription } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { blockEnd, delta, finished, started } from "../events/events.ts";
import { type WireCall, WireNode } from "./wire-node.ts";

/** One token of an answer, and its events: none while the text is incomplete. */
export type Step = { readonly token: number; readonly events: readonly Event[] };

/** Returns an answer of one block, opened by `start`: a token and a delta per piece, and a last token for its end. */
export function stepsOf(start: Event, ...pieces: readonly string[]): Step[] {
  const texts = pieces.map((piece, at) => ({
    token: 1_000 + at,
    events: at === 0 ? [start, delta(0, piece)] : [delta(0, piece)],
  }));
  const last = { token: 2, events: [blockEnd(0), finished(undefined, { outputTokens: pieces.length + 1 })] };
  return [...texts, last];
}

export type ResumableNodeOptions = {
  readonly steps: readonly Step[];
  readonly revision?: string;
  /** The model revision in DescribeNode. Default: `revision`. */
  readonly described?: string;
  readonly canContinue?: boolean;
  /** The digest of every prompt; without it the revision decides. */
  readonly promptDigest?: string;
  readonly started?: Partial<Started>;
  /** The steps after which the call of this number, from 1, stalls; after the last only the status is missing. */
  readonly stopAfter?: (call: number) => number | undefined;
  /** Whether the given part of a continuation is sent in one message, and not step by step. Default: true. */
  readonly inOnePiece?: boolean;
};

/** A node that plays one answer, continues it from any token, and stalls at the test's choice. */
export class ResumableNode {
  readonly node: WireNode;
  standing = 0;

  private constructor(node: WireNode) {
    this.node = node;
  }

  static async start(options: ResumableNodeOptions): Promise<ResumableNode> {
    const { revision = "r1", canContinue = true, promptDigest } = options;
    const byDigest = promptDigest === undefined ? [] : [Capability.PROMPT_DIGEST];
    const describe: Partial<ModelDescription> = {
      revision: options.described ?? revision,
      capabilities: canContinue ? [Capability.CONTINUATION, ...byDigest] : [],
    };
    const play = (call: WireCall) => resumable.#play(call, options, revision);
    const resumable: ResumableNode = new ResumableNode(await WireNode.start({ models: ["svc-qwen"], describe, play }));
    return resumable;
  }

  get address(): string {
    return this.node.address;
  }

  get calls(): readonly WireCall[] {
    return this.node.calls;
  }

  async #play(call: WireCall, options: ResumableNodeOptions, revision: string): Promise<void> {
    const { steps, stopAfter, inOnePiece = true } = options;
    const { continuation, resumable } = call.request;
    const given = continuation?.tokens.length ?? 0;
    const stop = stopAfter?.(this.calls.length);
    const { promptDigest } = options;
    const begun = promptDigest === undefined ? undefined : continuation?.promptDigest;
    if (continuation && (begun === undefined ? continuation.modelRevision !== revision : begun !== promptDigest)) {
      call.end(status.FAILED_PRECONDITION, "REVISION_MISMATCH");
      return;
    }
    call.send(
      started({ modelRevision: revision, ...(promptDigest !== undefined && { promptDigest }), ...options.started }),
    );
    const again = steps.slice(0, given);
    const tokens = (some: readonly Step[]) => (resumable ? some.map(({ token }) => token) : []);
    if (inOnePiece && again.length > 0)
      call.sendTokens(tokens(again), ...joined(again.flatMap(({ events }) => events)));
    for (const step of steps.slice(inOnePiece ? given : 0, stop)) call.sendTokens(tokens([step]), ...step.events);
    if (stop !== undefined) {
      await call.delivered();
      this.standing += 1;
      return;
    }
    call.end(status.OK);
  }
}

function joined(events: readonly Event[]): Event[] {
  const all: Event[] = [];
  for (const event of events) {
    const last = all.at(-1)?.kind;
    if (event.kind?.$case === "blockDelta" && last?.$case === "blockDelta")
      all[all.length - 1] = delta(last.value.index, last.value.text + event.kind.value.text);
    else all.push(event);
  }
  return all;
}
