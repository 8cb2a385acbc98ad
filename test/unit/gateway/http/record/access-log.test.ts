import { expect, test } from "vitest";
import { userAgentFamily } from "../../../../../gateway/http/record/access-log.ts";

test.each([
  ["claude-cli/2.1.329 (external, cli)", "claude-code"],
  ["codex_exec/0.169.0 (Debian 12.0.0; x86_64) dumb (codex_exec; 0.169.0)", "codex"],
  ["opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14", "opencode"],
  ["ai/6.0.326 ai-sdk/provider-utils/4.0.66 runtime/node.js/v20.20.2", "ai-sdk"],
  ["Anthropic/JS 1.11.0", "anthropic-node"],
  ["AsyncOpenAI/Python 2.3.0", "openai-python"],
  ["Agents/JavaScript 0.20.0", "openai-agents"],
  ["curl/8.5.0", "curl"],
])("%s is %s", (userAgent, family) => {
  expect(userAgentFamily(userAgent)).toBe(family);
});

test.each(["my secret tool", "x".repeat(10_000), "\u0000"])("an unknown agent's text is never logged", (userAgent) => {
  expect(userAgentFamily(userAgent)).toBe("other");
});

test.each([undefined, ""])("a missing header has no family", (userAgent) => {
  expect(userAgentFamily(userAgent)).toBeUndefined();
});
