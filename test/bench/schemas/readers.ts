import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { projectFolder } from "../../../deploy/runtime/files/project-folder.ts";
import { loadLlama } from "../../support/engine/load-llama.ts";
import type { ReadGrammar } from "./judge.ts";

/** Returns llama.cpp's own parser of grammars. Throws if there is no binary for this machine. */
export async function llamaReader(): Promise<ReadGrammar> {
  const llama = await loadLlama();
  if (llama === undefined) throw new Error("The bench of schemas needs node-llama-cpp with a binary for this machine.");
  return async (grammar, texts) => {
    const compiled: object = await llama.createGrammar({ grammar });
    if (!canTest(compiled)) throw new Error("This version of node-llama-cpp tests no texts.");
    return texts.map((text) => compiled._testText(text));
  };
}

function canTest(grammar: object): grammar is { _testText(text: string): boolean } {
  return "_testText" in grammar;
}

/**
 * Returns xgrammar as vLLM's environment below `SVC_TEST_ENGINES` has it, with a vocabulary of 150,000 tokens. Times to
 * compile, in milliseconds, are added to `compileMs`.
 */
export function xgrammarReader(compileMs: number[]): { readonly read: ReadGrammar; readonly close: () => void } {
  const python = join(process.env.SVC_TEST_ENGINES ?? ".tools/engines", "vllm/bin/python");
  const child = spawn(python, [join(projectFolder(), "test/bench/schemas/read-grammars.py")], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    read: async (grammar, texts) => {
      child.stdin.write(`${JSON.stringify({ grammar, texts })}\n`);
      const { value } = await lines.next();
      if (value === undefined) throw new Error("The reader of grammars has ended.");
      const { ms, allowed, error } = JSON.parse(value);
      compileMs.push(ms);
      if (error !== undefined) throw new Error(error);
      return allowed;
    },
    close: () => child.stdin.end(),
  };
}
