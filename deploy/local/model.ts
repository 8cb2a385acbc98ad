import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { access } from "node:fs/promises";
import { join, resolve } from "node:path";
import { errnoOf } from "../runtime/files/errno.ts";

/** The `backend` of the engines of a local start: what they serve. */
export type LocalModel =
  | {
      readonly kind: "llama";
      /** The path of the GGUF file. */
      readonly modelPath: string;
      /** The most tokens of prompt and answer together, for one generation. */
      readonly contextTokens: number;
      /** The number of generations at one time on each engine. */
      readonly slots: number;
      /** Whether a string or a list in JSON is ended in which the model writes the same over and over. */
      readonly endRepetition: boolean;
    }
  | { readonly kind: "scripted"; readonly script: "agent" }
  | { readonly kind: "simulator"; readonly answerTokens: { readonly min: number; readonly max: number } };

/** The error for a model that cannot be had; its message says what to do. */
export class ModelError extends Error {
  override readonly name = "ModelError";
}

/**
 * The shape of the demonstration model: it was trained on short dialogues, and it is tiny, so that many slots cost
 * nothing, and it finds no end of strings that it was not trained on.
 */
const DEMO = { contextTokens: 4096, slots: 8, endRepetition: true };
/**
 * The shape of any other model: the context that a coding agent needs at least, and few slots, as real weights are what
 * memory is spent on.
 */
const REAL = { contextTokens: 32_768, slots: 2, endRepetition: false };

/**
 * The model name, not a file, for the engine that plays a tool turn and a final turn, to try agents without a capable
 * model.
 */
const SCRIPTED = "scripted";
/** The channel on which Node tells of the connections that `fetch` could not make. */
const CONNECT_FAILED = "undici:client:connectError";

/**
 * The model name, not a file, for the engine that writes words of no meaning at a set rate, as many as a caller asks
 * for, to try many callers at once.
 */
const SIMULATOR = "simulator";
/** The length of a simulated answer in tokens, which a caller can only shorten. */
const SIMULATED_ANSWER = { min: 2_000, max: 2_000 };

/**
 * Resolves to what the engines are to serve. `model` is the path of a GGUF file, `hf:org/repo:quant`, `scripted`,
 * `simulator`, or undefined for the demonstration model of the project at `root`. `contextTokens` is the context of one
 * generation; undefined stands for what suits the model.
 *
 * A model `hf:…` is downloaded once into `stateDir`: the only time that a local start asks the network, and only when
 * told to. Throws `ModelError` when the file cannot be read or downloaded.
 */
export async function findModel(
  root: string,
  stateDir: string,
  model: string | undefined,
  contextTokens: number | undefined,
): Promise<LocalModel> {
  if (model === SCRIPTED) return { kind: "scripted", script: "agent" };
  if (model === SIMULATOR) return { kind: "simulator", answerTokens: SIMULATED_ANSWER };
  const shape = model === undefined ? DEMO : REAL;
  const path =
    model === undefined
      ? join(root, "engine", "demo-model", "demo.gguf")
      : model.startsWith("hf:")
        ? await download(model, join(stateDir, "models"))
        : resolve(model);
  try {
    await access(path);
  } catch (cause) {
    throw new ModelError(`--model: there is no readable file at ${path}`, { cause });
  }
  return {
    kind: "llama",
    modelPath: path,
    slots: shape.slots,
    contextTokens: contextTokens ?? shape.contextTokens,
    endRepetition: shape.endRepetition,
  };
}

async function download(uri: string, folder: string): Promise<string> {
  // Why it could not connect, the library keeps to itself; Node tells whoever listens.
  let unconnected: unknown;
  const note = (told: unknown) => {
    if (typeof told === "object" && told !== null && "error" in told) unconnected = told.error;
  };
  subscribe(CONNECT_FAILED, note);
  try {
    const { resolveModelFile } = await import("node-llama-cpp");
    return await resolveModelFile(uri, folder);
  } catch (cause) {
    throw new ModelError(`--model: ${uri} could not be downloaded: ${whyFailed(cause, unconnected)}`, { cause });
  } finally {
    unsubscribe(CONNECT_FAILED, note);
  }
}

/**
 * Returns why a download failed: the first line of what the library says, and the system's code of what lies below it,
 * or else of `unconnected`, the error of a connection that was not made, where there was one.
 */
export function whyFailed(error: unknown, unconnected?: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [said = ""] = error.message.split("\n");
  for (let { cause } = error; cause instanceof Error; { cause } = cause) {
    const code = errnoOf(cause);
    if (code !== "") return `${said} (${code})`;
  }
  const code = errnoOf(unconnected);
  return code === "" ? said : `${said} (${code})`;
}
