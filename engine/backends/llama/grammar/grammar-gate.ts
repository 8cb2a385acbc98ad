import type { LlamaGrammarEvaluationState, Token } from "node-llama-cpp";
import type { CompiledGrammar } from "./grammar-cache.ts";
import type { GrammarStates } from "./grammar-states.ts";

/**
 * Knows where in the grammar of an output the model stands. A new state is made where the model has not written all of
 * the output itself.
 */
export class GrammarGate {
  readonly #grammar: CompiledGrammar | undefined;
  readonly #states: GrammarStates;
  #state: LlamaGrammarEvaluationState | undefined;

  /**
   * Makes a gate that stands at the start of the output. `grammar` is undefined where nothing is fixed.
   */
  constructor(grammar: CompiledGrammar | undefined, states: GrammarStates) {
    this.#grammar = grammar;
    this.#states = states;
  }

  /**
   * Returns the grammar state that the next token is held to, which the sampler moves on; undefined where nothing is
   * fixed.
   */
  state(): LlamaGrammarEvaluationState | undefined {
    if (this.#grammar && !this.#state) this.#state = this.#states.begin(this.#grammar.whole);
    return this.#state;
  }

  /** Returns a copy of the state, for a token that is sampled but not taken; undefined where nothing is fixed. */
  copy(): LlamaGrammarEvaluationState | undefined {
    const state = this.state();
    return state && this.#states.copy(state);
  }

  /** Takes a token that was not sampled here. Returns false where the grammar does not allow it. */
  take(token: Token): boolean {
    const state = this.state();
    return state === undefined || this.#states.take(state, token);
  }

  /** Notes that the reasoning was ended in the model's place: what follows is the answer. */
  reasoningEnded(): void {
    if (this.#grammar) this.#state = this.#states.begin(this.#grammar.behindReasoning);
  }
}
