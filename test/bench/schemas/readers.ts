import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { projectFolder } from "../../../deploy/runtime/files/project-folder.ts";
import { loadLlama } from "../../support/engine/load-llama.ts";
import type { ReadGrammar } from "./judge.ts";

/** Parses a grammar and returns the processor time that this takes, in milliseconds. */
export type LlamaParse = (grammar: string) => Promise<number>;

/** Returns llama.cpp's own parser of grammars. Throws if there is no binary for this machine. */
export async function llamaReader(): Promise<{ readonly read: ReadGrammar; readonly parse: LlamaParse }> {
  const llama = await loadLlama();
  if (llama === undefined) throw new Error("The bench of schemas needs node-llama-cpp with a binary for this machine.");
  return {
    read: async (grammar, texts) => {
      const compiled: object = await llama.createGrammar({ grammar });
      if (!canTest(compiled)) throw new Error("This version of node-llama-cpp tests no texts.");
      return texts.map((text) => compiled._testText(text));
    },
    parse: async (grammar) => {
      const began = process.cpuUsage();
      await llama.createGrammar({ grammar });
      const { user, system } = process.cpuUsage(began);
      return (user + system) / 1000;
    },
  };
}

function canTest(grammar: object): grammar is { _testText(text: string): boolean } {
  return "_testText" in grammar;
}

/** The processor time of a compiler in milliseconds, the size of what it made, and which of the texts that allows. */
type Compiled = {
  readonly ms: number;
  readonly bytes: number;
  readonly allowed: readonly boolean[];
};

export type Xgrammar = {
  /** Compiles a grammar, with xgrammar's cache if `cached`. Throws with xgrammar's words if it does not take it. */
  readonly compile: (grammar: string, texts?: readonly string[], cached?: boolean) => Promise<Compiled>;
  readonly close: () => void;
};

/**
 * Returns xgrammar as vLLM's environment below `SVC_TEST_ENGINES` has it, with a made-up vocabulary of `size` tokens;
 * undefined without that environment.
 */
export function xgrammarReader(size: number): Xgrammar | undefined {
  const python = join(process.env.SVC_TEST_ENGINES ?? ".tools/engines", "vllm/bin/python");
  if (!existsSync(python)) return undefined;
  const child = spawn(python, [join(projectFolder(), "test/bench/schemas/read-grammars.py"), `${size}`], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    compile: async (grammar, texts = [], cached = false) => {
      child.stdin.write(`${JSON.stringify({ grammar, texts, cached })}\n`);
      const { value } = await lines.next();
      if (value === undefined) throw new Error("The reader of grammars has ended.");
      const found: Compiled & { readonly error?: string } = JSON.parse(value);
      if (found.error !== undefined) throw new Error(found.error);
      return found;
    },
    close: () => child.stdin.end(),
  };
}
