import type { LlamaGrammar, LlamaGrammarEvaluationState, Token } from "node-llama-cpp";
import { expect, test } from "vitest";
import { GrammarGate } from "../../../../../../engine/backends/llama/grammar/grammar-gate.ts";

const grammar = (name: string) => ({ name }) as unknown as LlamaGrammar;

/** A gate whose states name their grammar, and count the states before them. */
function gateOf(compiled: ConstructorParameters<typeof GrammarGate>[0]) {
  let states = 0;
  return new GrammarGate(compiled, {
    canTake: true,
    begin: (from) => ({ from, number: states++ }) as unknown as LlamaGrammarEvaluationState,
    copy: (state) => ({ ...state }) as LlamaGrammarEvaluationState,
    take: () => false,
  });
}

test("one state lasts through the output, until reasoning is closed for the model", () => {
  const gate = gateOf({ whole: grammar("whole"), behindReasoning: grammar("rest") });
  expect(gate.state()).toEqual({ from: { name: "whole" }, number: 0 });
  expect(gate.state()).toEqual({ from: { name: "whole" }, number: 0 });
  gate.reasoningEnded();
  expect(gate.state()).toEqual({ from: { name: "rest" }, number: 1 });
  expect(gate.state()).toEqual({ from: { name: "rest" }, number: 1 });
});

test("without a grammar every token is allowed", () => {
  const gate = gateOf(undefined);
  gate.reasoningEnded();
  expect(gate.state()).toBeUndefined();
  expect(gate.copy()).toBeUndefined();
  expect(gate.take(7 as Token)).toBe(true);
});

test("a token that the grammar forbids is rejected, and a copy does not advance the state", () => {
  const gate = gateOf({ whole: grammar("whole"), behindReasoning: grammar("rest") });
  expect(gate.take(7 as Token)).toBe(false);
  expect(gate.copy()).not.toBe(gate.state());
  expect(gate.copy()).toEqual(gate.state());
});
