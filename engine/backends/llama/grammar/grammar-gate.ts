import type { LlamaGrammarEvaluationState } from "node-llama-cpp";
import type { CompiledGrammar } from "./grammar-cache.ts";

/** Where in the grammar of an output the model stands. A new state is made where it has not written all of it itself. */
export class GrammarGate {
  readonly #grammar: CompiledGrammar | undefined;
  readonly #newState: (grammar: CompiledGrammar["whole"]) => LlamaGrammarEvaluationState;
  #state: LlamaGrammarEvaluationState | undefined;

  constructor(
    grammar: CompiledGrammar | undefined,
    newState: (grammar: CompiledGrammar["whole"]) => LlamaGrammarEvaluationState,
  ) {
    this.#grammar = grammar;
    this.#newState = newState;
  }

  /** What the next token is held to; undefined: nothing. */
  state(): LlamaGrammarEvaluationState | undefined {
    if (this.#grammar && !this.#state) this.#state = this.#newState(this.#grammar.whole);
    return this.#state;
  }

  /** The reasoning was ended in the model's place: what follows is the answer. */
  reasoningEnded(): void {
    if (this.#grammar) this.#state = this.#newState(this.#grammar.behindReasoning);
  }
}
