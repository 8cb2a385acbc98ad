import { readFileSync } from "node:fs";
import { ConfigError } from "../../../deploy/runtime/config/load-config.ts";
import type { OpenAiCompatibleConfig } from "../../config.ts";
import { loadProfile } from "../../profiles/profile.ts";
import { OpenAiCompatibleBackend } from "./openai-compatible-backend.ts";

/** The backend of a configuration. Throws `ConfigError` for a profile or a key file that cannot be read. */
export function createOpenAiCompatible(
  config: OpenAiCompatibleConfig,
  nodeId: string,
  models: readonly string[],
): OpenAiCompatibleBackend {
  const { apiKeyFile, profile, ...options } = config;
  return new OpenAiCompatibleBackend({
    ...options,
    nodeId,
    models,
    profile: loadProfile(profile),
    ...(apiKeyFile === undefined ? {} : { apiKey: readKey(apiKeyFile) }),
  });
}

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
