import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { access, constants, stat } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { basename, join, resolve } from "node:path";
import { distance } from "fastest-levenshtein";
import { errnoOf } from "../runtime/files/private-file.ts";

export type LocalModel =
  | {
      readonly kind: "llama";
      readonly modelPath: string;
      readonly templatePath?: string;
      /** Most tokens of prompt and answer together, per generation. */
      readonly contextTokens: number;
      /** Concurrent generations of each engine. */
      readonly slots: number;
      /** The CPU threads of each engine. Default: the engine's own choice. */
      readonly threads?: number;
    }
  | { readonly kind: "scripted" };

export class ModelError extends Error {
  override readonly name = "ModelError";
}

/** Settings of the demonstration model: it was trained on short dialogues, and its slots are cheap. */
const DEMO = { contextTokens: 4096, slots: 8 };
/** Of any other model: the least context for a coding agent; few slots, as each takes gigabytes with a large model. */
const REAL = { contextTokens: 32_768, slots: 2, smallSlots: 4 };
/** The size of a model file up to which four contexts cost little memory: about 1.5 billion parameters. */
const SMALL_BYTES = 1_000_000_000;

/** Node's diagnostics channel for failed connections of `fetch`. */
const CONNECT_FAILED = "undici:client:connectError";

/**
 * Resolves to the backend of the engines. `model` is the path of a GGUF file, `hf:org/repo:quant`, `scripted`, or
 * undefined for the demonstration model of the project at `root`. `contextTokens` is the context of one
 * generation; by default it depends on the model. `chatTemplate` is the path of a template, for a file without one.
 * Several engines share the cores, as threads without a core of their own hold up all others of their engine.
 * A model `hf:…` is downloaded once into `stateDir`: the only network access of a local start. Throws `ModelError` if
 * the file cannot be read or downloaded.
 */
export async function findModel(
  root: string,
  stateDir: string,
  model: string | undefined,
  contextTokens: number | undefined,
  engines = 1,
  chatTemplate?: string,
): Promise<LocalModel> {
  if (model === "scripted") return { kind: "scripted" };
  const path =
    model === undefined
      ? join(root, "engine", "demo-model", "demo.gguf")
      : model.startsWith("hf:")
        ? await download(model, join(stateDir, "models"))
        : resolve(model);
  let bytes: number;
  try {
    await access(path, constants.R_OK);
    bytes = (await stat(path)).size;
  } catch (cause) {
    throw new ModelError(`--model: there is no readable file at ${path}${meant(model)}`, { cause });
  }
  const templatePath = chatTemplate === undefined ? undefined : resolve(chatTemplate);
  if (templatePath !== undefined)
    await access(templatePath, constants.R_OK).catch((cause: unknown) => {
      throw new ModelError(`--chat-template: there is no readable file at ${templatePath}`, { cause });
    });
  return {
    kind: "llama",
    modelPath: path,
    ...(templatePath !== undefined && { templatePath }),
    slots: model === undefined ? DEMO.slots : bytes <= SMALL_BYTES ? REAL.smallSlots : REAL.slots,
    contextTokens: contextTokens ?? (model === undefined ? DEMO : REAL).contextTokens,
    ...(model !== undefined && engines > 1 && { threads: Math.max(1, Math.floor(availableParallelism() / engines)) }),
  };
}

/** Returns the name of a start's weights for people. */
export function weightsOf(model: string | undefined): string {
  if (model === undefined) return "Demonstration model";
  if (model === "scripted") return "Scripted answers";
  return basename(model, ".gguf").slice(0, 64);
}

/** Returns what a name without a file was probably meant to be; "" if nothing is near. */
function meant(model = ""): string {
  if (/^https?:/i.test(model)) return " (a file to download is named hf:org/repo:quant)";
  if (/^[\w.-]+\/[\w.-]+(?::\w+)?$/.test(model) && !/\.gguf$/i.test(model)) return ` (did you mean hf:${model}?)`;
  if (/^hf[^:]/i.test(model)) return " (did you mean hf:org/repo:quant?)";
  return distance(model, "scripted") <= 3 ? " (did you mean scripted?)" : "";
}

async function download(uri: string, folder: string): Promise<string> {
  // The library does not report why a connection failed; Node does on this channel.
  let unconnected: unknown;
  const note = (message: unknown) => {
    if (typeof message === "object" && message !== null && "error" in message) unconnected = message.error;
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

/** Returns the first line of the library's error, and of its cause, else of `unconnected`, what the system says. */
export function whyFailed(error: unknown, unconnected?: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [said = ""] = error.message.split("\n");
  for (let { cause } = error; cause instanceof Error; { cause } = cause) {
    const code = errnoOf(cause);
    if (code !== "") return `${said} (${inWords(code)})`;
  }
  const code = errnoOf(unconnected);
  return code === "" ? said : `${said} (${inWords(code)})`;
}

function inWords(code: string): string {
  return code === "ENOTFOUND" || code === "EAI_AGAIN" ? `there is no network, or no DNS: ${code}` : code;
}
