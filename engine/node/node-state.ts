import { type DescribeNodeResponse, ModelState } from "../../proto/gen/svc/inference/v1/node_service.ts";
import type { BackendDescription } from "../backend.ts";
import { EngineError } from "../errors.ts";

/**
 * The phase of a node's life. `loading` comes first and `draining` last; a `stalled` node is out of service until its
 * engine moves again.
 */
export type NodePhase = "loading" | "serving" | "stalled" | "draining";

const MODEL_STATE: Readonly<Record<NodePhase, ModelState>> = {
  loading: ModelState.LOADING,
  serving: ModelState.READY,
  stalled: ModelState.FAILED,
  draining: ModelState.DRAINING,
};

const SERVICE_HEALTH_NAMES = ["", "svc.inference.v1.InferenceService"];

/** Returns the name under which `grpc.health.v1.Health` knows a model: `svc.model/<id>`. */
export function healthName(model: string): string {
  return `svc.model/${model}`;
}

/** The names of a node and of what it serves, and who hears whether it does. */
export type NodeStateOptions = {
  /** The name of the node, as DescribeNode tells it. */
  readonly nodeId: string;
  /** The version of this program, as DescribeNode tells it. */
  readonly nodeVersion: string;
  /** The ids of the models that the node serves. */
  readonly models: readonly string[];
  /** Hears the health of the service and of each model by its health name, at once and at every change. */
  readonly setHealth: (name: string, status: "SERVING" | "NOT_SERVING") => void;
};

/** Knows whether the node takes requests, and nobody else does; its health follows this state. */
export class NodeState {
  readonly #options: NodeStateOptions;
  readonly #models: ReadonlySet<string>;
  readonly #startedAt = new Date();
  #now: NodePhase = "loading";

  /** Makes the state of a node in `loading`, with every health name NOT_SERVING. */
  constructor(options: NodeStateOptions) {
    this.#options = options;
    this.#models = new Set(options.models);
    this.#tellHealth();
  }

  /** The phase in which the node is. */
  get now(): NodePhase {
    return this.#now;
  }

  /**
   * Puts the node into a phase, and returns whether that changed anything. A node that drains never leaves that phase.
   */
  become(phase: NodePhase): boolean {
    if (this.#now === phase || this.#now === "draining") return false;
    this.#now = phase;
    this.#tellHealth();
    return true;
  }

  /** Throws `EngineError` when the node does not take a request for this model now. */
  admit(model: string): void {
    if (this.#now !== "serving") throw this.refusal();
    if (!this.#models.has(model)) throw new EngineError("MODEL_NOT_SERVED", "The node does not serve this model.");
  }

  /** Returns the error with which a node that is not serving refuses every request. */
  refusal(): EngineError {
    if (this.#now === "loading") return new EngineError("MODEL_LOADING", "The model is still loading.");
    if (this.#now === "draining") return new EngineError("DRAINING", "The node takes no new requests.");
    return new EngineError("ENGINE_ERROR", "The engine does not move.");
  }

  /**
   * Returns the model as a label of metrics and logs: its id if the node serves it, else `unknown`, and so never a word
   * of the caller's.
   */
  label(model: string): string {
    return this.#models.has(model) ? model : "unknown";
  }

  /** Returns the answer to DescribeNode: the node, its engine, and its models in their present state. */
  describe({ engineKind, engineVersion, models }: BackendDescription): DescribeNodeResponse {
    const { nodeId, nodeVersion } = this.#options;
    const state = MODEL_STATE[this.#now];
    return {
      nodeId,
      engineKind,
      engineVersion,
      nodeVersion,
      startedAt: this.#startedAt,
      models: models.map((model) => ({ ...model, state })),
    };
  }

  #tellHealth(): void {
    const status = this.#now === "serving" ? "SERVING" : "NOT_SERVING";
    for (const name of SERVICE_HEALTH_NAMES) this.#options.setHealth(name, status);
    for (const model of this.#models) this.#options.setHealth(healthName(model), status);
  }
}
