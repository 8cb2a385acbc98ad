import { type DescribeNodeResponse, ModelState } from "../../proto/gen/svc/inference/v1/node_service.ts";
import type { BackendDescription } from "../backend.ts";
import { EngineError } from "../errors.ts";

/** `loading` comes first and `draining` last; `stalled` is out of service until the engine makes steps again. */
export type NodePhase = "loading" | "serving" | "stalled" | "draining";

const MODEL_STATE: Readonly<Record<NodePhase, ModelState>> = {
  loading: ModelState.LOADING,
  serving: ModelState.READY,
  stalled: ModelState.FAILED,
  draining: ModelState.DRAINING,
};

const SERVICE_HEALTH_NAMES = ["", "svc.inference.v1.InferenceService"];

export type NodeStateOptions = {
  readonly nodeId: string;
  readonly nodeVersion: string;
  readonly models: readonly string[];
  /** Receives the health of the service and of each model (`svc.model/<id>`), at construction and at every change. */
  readonly setHealth: (name: string, status: "SERVING" | "NOT_SERVING") => void;
};

/** The only place that decides whether the node accepts requests; its health follows this state. */
export class NodeState {
  readonly #options: NodeStateOptions;
  readonly #models: ReadonlySet<string>;
  readonly #startedAt = new Date();
  now: NodePhase = "loading";

  /** Starts in `loading`, with every health name NOT_SERVING. */
  constructor(options: NodeStateOptions) {
    this.#options = options;
    this.#models = new Set(options.models);
    this.#publishHealth();
  }

  /** Returns whether the phase changed. A draining node never leaves that phase. */
  become(phase: NodePhase): boolean {
    if (this.now === phase || this.now === "draining") return false;
    this.now = phase;
    this.#publishHealth();
    return true;
  }

  admit(model: string): void {
    if (this.now !== "serving") throw this.refusal();
    if (!this.#models.has(model)) throw new EngineError("MODEL_NOT_SERVED", "The node does not serve this model.");
  }

  refusal(): EngineError {
    if (this.now === "loading") return new EngineError("MODEL_LOADING", "The model is still loading.");
    if (this.now === "draining") return new EngineError("DRAINING", "The node takes no new requests.");
    return new EngineError("ENGINE_ERROR", "The engine does not move.");
  }

  /** Returns the model's id if the node serves it, else `unknown`: no caller's text becomes a label of metrics. */
  label(model: string): string {
    return this.#models.has(model) ? model : "unknown";
  }

  describe({ engineKind, engineVersion, models }: BackendDescription): DescribeNodeResponse {
    const { nodeId, nodeVersion } = this.#options;
    const state = MODEL_STATE[this.now];
    return {
      nodeId,
      engineKind,
      engineVersion,
      nodeVersion,
      startedAt: this.#startedAt,
      models: models.map((model) => ({ ...model, state })),
    };
  }

  #publishHealth(): void {
    const status = this.now === "serving" ? "SERVING" : "NOT_SERVING";
    for (const name of SERVICE_HEALTH_NAMES) this.#options.setHealth(name, status);
    for (const model of this.#models) this.#options.setHealth(`svc.model/${model}`, status);
  }
}
