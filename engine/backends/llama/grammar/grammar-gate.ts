import type { LlamaGrammarEvaluationState, Token } from "node-llama-cpp";
import type { CompiledGrammar } from "./grammar-cache.ts";
import type { GrammarStates } from "./grammar-states.ts";

/** Tracks the position of the output in its grammar. */
export class GrammarGate {
  readonly #grammar: CompiledGrammar | undefined;
  readonly #states: GrammarStates;
  #state: LlamaGrammarEvaluationState | undefined;

  constructor(grammar: CompiledGrammar | undefined, states: GrammarStates) {
    this.#grammar = grammar;
    this.#states = states;
  }

  /** Returns the grammar state of the next token, which the sampler advances; undefined for unconstrained output. */
  state(): LlamaGrammarEvaluationState | undefined {
    if (this.#grammar && !this.#state) this.#state = this.#states.begin(this.#grammar.whole);
    return this.#state;
  }

  /** Copies the state for a token that is sampled but discarded. */
  copy(): LlamaGrammarEvaluationState | undefined {
    const state = this.state();
    return state && this.#states.copy(state);
  }

  /** Takes a token that was not sampled here. Returns false if the grammar does not allow it. */
  take(token: Token): boolean {
    const state = this.state();
    return state === undefined || this.#states.take(state, token);
  }

  reasoningEnded(): void {
    if (this.#grammar) this.#state = this.#states.begin(this.#grammar.behindReasoning);
  }
}
