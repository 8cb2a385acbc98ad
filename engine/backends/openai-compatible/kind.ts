import { readFileSync } from "node:fs";
import { ConfigError } from "../../../deploy/runtime/config/load-config.ts";
import { loadProfile } from "../../profiles/profile.ts";
import type { BackendKind } from "../backend-kind.ts";
import { OpenAiCompatibleBackend } from "./openai-compatible-backend.ts";
import { openAiCompatibleSchema } from "./options.ts";

/**
 * The kind of backend that uses an engine beside the node, vLLM, SGLang or llama-server: `kind: openai-compatible` in
 * the configuration.
 */
export const openAiCompatible: BackendKind<typeof openAiCompatibleSchema> = {
  schema: openAiCompatibleSchema,
  create({ apiKeyFile, profile, ...options }, node) {
    return new OpenAiCompatibleBackend({
      ...options,
      ...node,
      profile: loadProfile(profile),
      apiKey: apiKeyFile === undefined ? undefined : readKey(apiKeyFile),
    });
  },
  engineOf: ({ baseUrl }) => new URL(baseUrl).host,
};

/** Reads the API key in a file. Throws `ConfigError` for a file that cannot be read or holds no key. */
function readKey(file: string): string {
  let key: string;
  try {
    key = readFileSync(file, "utf8").trim();
  } catch (cause) {
    throw new ConfigError("backend.apiKeyFile: cannot be read.", { cause });
  }
  if (!/^[\x21-\x7e]+$/.test(key)) throw new ConfigError("backend.apiKeyFile: holds no key.");
  return key;
}
