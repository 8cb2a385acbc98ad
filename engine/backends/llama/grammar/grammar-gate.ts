import type { LlamaGrammarEvaluationState, Token } from "node-llama-cpp";
import type { CompiledGrammar } from "./grammar-cache.ts";
import type { GrammarStates } from "./grammar-states.ts";

/**
 * Tracks the position of the output in its grammar. A new state is created after tokens that the model did not write
 * itself.
 */
export class GrammarGate {
  readonly #grammar: CompiledGrammar | undefined;
  readonly #states: GrammarStates;
  #state: LlamaGrammarEvaluationState | undefined;

  /** Starts at the beginning of the output. `grammar` is undefined for unconstrained output. */
  constructor(grammar: CompiledGrammar | undefined, states: GrammarStates) {
    this.#grammar = grammar;
    this.#states = states;
  }

  /** Returns the grammar state of the next token, which the sampler advances; undefined for unconstrained output. */
  state(): LlamaGrammarEvaluationState | undefined {
    if (this.#grammar && !this.#state) this.#state = this.#states.begin(this.#grammar.whole);
    return this.#state;
  }

  /** Returns a copy of the state, for a token that is sampled but discarded; undefined for unconstrained output. */
  copy(): LlamaGrammarEvaluationState | undefined {
    const state = this.state();
    return state && this.#states.copy(state);
  }

  /** Takes a token that was not sampled here. Returns false if the grammar does not allow it. */
  take(token: Token): boolean {
    const state = this.state();
    return state === undefined || this.#states.take(state, token);
  }

  /** Moves to the start of the answer after reasoning was closed for the model. */
  reasoningEnded(): void {
    if (this.#grammar) this.#state = this.#states.begin(this.#grammar.behindReasoning);
  }
}
