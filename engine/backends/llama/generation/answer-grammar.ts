import type { Llama, LlamaGrammar, LlamaGrammarEvaluationState, LlamaModel, Token } from "node-llama-cpp";
import { EngineError } from "../../../errors.ts";
import { BEHIND_REASONING } from "../../../grammar/output/output-grammar.ts";
import type { GrammarCompiler } from "../../grammar-cache.ts";

export type GrammarStates = {
  readonly begin: (grammar: LlamaGrammar) => LlamaGrammarEvaluationState;
  readonly copy: (state: LlamaGrammarEvaluationState) => LlamaGrammarEvaluationState;
  readonly canTake: boolean;
  /** Returns false and changes nothing if the grammar forbids the token. Throws `EngineError` without `canTake`. */
  readonly take: (state: LlamaGrammarEvaluationState, token: Token) => boolean;
};

type StateLibrary = Pick<typeof import("node-llama-cpp"), "LlamaGrammarEvaluationState">;

type TokenSteps = {
  readonly allows: (...args: unknown[]) => unknown;
  readonly accept: (...args: unknown[]) => unknown;
};

/** Uses functions that the library does not publish, which a later version may lack. */
export function grammarStates(
  { LlamaGrammarEvaluationState: State }: StateLibrary,
  llama: Llama,
  model: LlamaModel,
): GrammarStates {
  const steps = tokenSteps(llama);
  return {
    canTake: steps !== undefined,
    begin: (grammar) => new State({ model, grammar }),
    copy: (state) => new State(state),
    take: (state, token) => {
      if (!steps) throw new EngineError("UNSUPPORTED_FEATURE", "continuation: not of an answer of a fixed form.");
      const native: unknown = Reflect.get(state, "_state");
      // The binary throws if the grammar does not allow the token.
      if (steps.allows(native, token) !== true) return false;
      steps.accept(native, token);
      return true;
    },
  };
}

function tokenSteps(llama: Llama): TokenSteps | undefined {
  const bindings: unknown = Reflect.get(llama, "_bindings");
  const sampler = member(bindings, "AddonSampler");
  const allows = member(sampler, "canBeNextTokenForGrammarEvaluationState");
  const accept = member(sampler, "acceptGrammarEvaluationStateToken");
  if (typeof allows !== "function" || typeof accept !== "function") return undefined;
  return {
    allows: (...args) => Reflect.apply(allows, sampler, args),
    accept: (...args) => Reflect.apply(accept, sampler, args),
  };
}

function member(of: unknown, name: string): unknown {
  return (typeof of === "object" && of !== null) || typeof of === "function" ? Reflect.get(of, name) : undefined;
}

export type CompiledGrammar = {
  readonly whole: LlamaGrammar;
  readonly behindReasoning: LlamaGrammar;
};

export function grammarCompiler(llama: Llama): GrammarCompiler<CompiledGrammar> {
  const parse = async (grammar: string, rootRuleName: string): Promise<LlamaGrammar> => {
    try {
      return await llama.createGrammar({ grammar, rootRuleName });
    } catch (cause) {
      throw new EngineError("INVALID_SCHEMA", "The schema could not be turned into a grammar.", {}, cause);
    }
  };
  return async (text, { markers }) => {
    const whole = await parse(text, "root");
    return { whole, behindReasoning: markers.reasoning ? await parse(text, BEHIND_REASONING) : whole };
  };
}

export class AnswerGrammar {
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
