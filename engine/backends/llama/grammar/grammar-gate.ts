import type { LlamaGrammarEvaluationState } from "node-llama-cpp";
import type { CompiledGrammar } from "./grammar-cache.ts";

/**
 * Knows where in the grammar of an output the model stands. A new state is made where the model has not written all of
 * the output itself.
 */
export class GrammarGate {
  readonly #grammar: CompiledGrammar | undefined;
  readonly #newState: (grammar: CompiledGrammar["whole"]) => LlamaGrammarEvaluationState;
  #state: LlamaGrammarEvaluationState | undefined;

  /**
   * Makes a gate that stands at the start of the output. `grammar` is undefined where nothing is fixed; `newState`
   * begins a grammar.
   */
  constructor(
    grammar: CompiledGrammar | undefined,
    newState: (grammar: CompiledGrammar["whole"]) => LlamaGrammarEvaluationState,
  ) {
    this.#grammar = grammar;
    this.#newState = newState;
  }

  /** Returns the grammar state that the next token is held to; undefined where nothing is fixed. */
  state(): LlamaGrammarEvaluationState | undefined {
    if (this.#grammar && !this.#state) this.#state = this.#newState(this.#grammar.whole);
    return this.#state;
  }

  /** Notes that the reasoning was ended in the model's place: what follows is the answer. */
  reasoningEnded(): void {
    if (this.#grammar) this.#state = this.#newState(this.#grammar.behindReasoning);
  }
}
