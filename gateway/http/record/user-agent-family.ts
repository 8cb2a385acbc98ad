/**
 * Callers that an operator wants to tell apart, by how their `user-agent` begins; first match wins. The words of the header
 * itself are the caller's and get nowhere.
 */
const FAMILIES: readonly (readonly [start: string, family: string])[] = [
  ["claude-cli/", "claude-code"],
  ["codex", "codex"],
  ["opencode/", "opencode"],
  ["copilot", "copilot"],
  ["githubcopilot", "copilot"],
  ["cline", "cline"],
  ["qwencode", "qwen-code"],
  ["openai/js", "openai-node"],
  ["openai/python", "openai-python"],
  ["asyncopenai/python", "openai-python"],
  ["anthropic/js", "anthropic-node"],
  ["anthropic/python", "anthropic-python"],
  ["asyncanthropic/python", "anthropic-python"],
  ["agents/", "openai-agents"],
  ["langchain", "langchain"],
  ["ai/", "ai-sdk"],
  ["ai-sdk/", "ai-sdk"],
  ["litellm", "litellm"],
  ["curl/", "curl"],
  ["python", "python"],
  ["go-http-client/", "go"],
  ["node", "node"],
  ["undici", "node"],
  ["mozilla/", "browser"],
];

/** The kind of program that sent a request: one of a fixed list, `other`, or undefined where it does not say. */
export function userAgentFamily(userAgent: string | undefined): string | undefined {
  if (userAgent === undefined || userAgent === "") return undefined;
  const start = userAgent.slice(0, 32).toLowerCase();
  return FAMILIES.find(([prefix]) => start.startsWith(prefix))?.[1] ?? "other";
}
