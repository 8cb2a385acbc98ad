import type { Llama, LlamaGrammar, LlamaGrammarEvaluationState, LlamaModel, Token } from "node-llama-cpp";
import { EngineError } from "../../../errors.ts";

/** Creates and advances positions in grammars. */
export type GrammarStates = {
  readonly begin: (grammar: LlamaGrammar) => LlamaGrammarEvaluationState;
  /** Creates a second state at the same position. */
  readonly copy: (state: LlamaGrammarEvaluationState) => LlamaGrammarEvaluationState;
  /** Whether states can be advanced by tokens that were not sampled with them. */
  readonly canTake: boolean;
  /**
   * Advances a state by a token. Returns false, and leaves the state unchanged, if the grammar does not allow the
   * token. Throws `EngineError` UNSUPPORTED_FEATURE if states cannot be advanced this way.
   */
  readonly take: (state: LlamaGrammarEvaluationState, token: Token) => boolean;
};

type StateLibrary = Pick<typeof import("node-llama-cpp"), "LlamaGrammarEvaluationState">;

type TokenSteps = {
  readonly allows: (...args: unknown[]) => unknown;
  readonly accept: (...args: unknown[]) => unknown;
};

/**
 * Returns the functions for positions in grammars. The library has no public function that advances a state by tokens
 * that were not sampled, although it uses one for speculative decoding: a later version may lack it.
 */
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
