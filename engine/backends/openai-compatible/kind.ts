import { readFileSync } from "node:fs";
import { ConfigError } from "../../../deploy/runtime/config/load-config.ts";
import { FileError, readPrivateFileSync } from "../../../deploy/runtime/files/private-file.ts";
import type { BackendKind } from "../../backend.ts";
import { loadProfile } from "../../profiles/profile.ts";
import { spellingsInFile } from "./marks/model-marks.ts";
import { OpenAiCompatibleBackend } from "./openai-compatible-backend.ts";
import { ENGINE_TIMES, openAiCompatibleSchema } from "./options.ts";
import { readModelFiles } from "./prompt/model-files.ts";

/** An engine beside the node, vLLM, SGLang or llama-server: `kind: openai-compatible` in the configuration. */
export const openAiCompatible: BackendKind<typeof openAiCompatibleSchema> = {
  schema: openAiCompatibleSchema,
  create({ apiKeyFile, profile, tokenizerFile, ...options }, node, work) {
    return new OpenAiCompatibleBackend({
      ...ENGINE_TIMES,
      ...options,
      ...node,
      profile: loadProfile(profile),
      work,
      spellings: tokenizerFile === undefined ? undefined : readSpellings(tokenizerFile),
      files: tokenizerFile === undefined ? undefined : readModelFiles(tokenizerFile),
      onFault: (thrown) => work.parseFailed(thrown),
      apiKey: apiKeyFile === undefined ? undefined : readKey(apiKeyFile),
    });
  },
};

/** Reads the spellings of the special tokens from a file. Throws `ConfigError` if it is not a tokenizer.json. */
function readSpellings(file: string): readonly string[] {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    throw new ConfigError("backend.tokenizerFile: cannot be read.", { cause });
  }
  const spellings = spellingsInFile(text);
  if (!spellings) throw new ConfigError("backend.tokenizerFile: is no tokenizer.json with added_tokens.");
  return spellings;
}

/** Throws `ConfigError` for a file without a key, or that other users can read or write. */
function readKey(file: string): string {
  let bytes: Buffer | undefined;
  try {
    bytes = readPrivateFileSync(file);
  } catch (cause) {
    if (!(cause instanceof FileError)) throw cause;
    throw new ConfigError(`backend.apiKeyFile: ${cause.message}`, { cause });
  }
  if (bytes === undefined) throw new ConfigError("backend.apiKeyFile: there is no such file.");
  const key = bytes.toString("utf8").trim();
  if (!/^[\x21-\x7e]+$/.test(key)) throw new ConfigError("backend.apiKeyFile: holds no key.");
  return key;
}
