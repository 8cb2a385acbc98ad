import type { IncomingHttpHeaders } from "node:http";
import { ApiError, type Envelope } from "../../errors.ts";
import { errorBody, errorBodyB, messageOf } from "../../formats/error-envelope.ts";
import { type AgentSetting, OUTCOMES } from "../../outcome.ts";

type Cures = Readonly<Partial<Record<AgentSetting, string>>>;

type AgentRow = {
  /** The start of its `user-agent`, or a header that it alone sends. */
  readonly by: { readonly userAgent: string } | { readonly header: string };
  readonly cures: Cures;
  /** The type of Format B after which it ends, where it repeats others; a full window keeps its own. */
  readonly endsAtType?: string;
  /** Whether it gets other words for a full window than the vendors', which it answers by longer prompts. */
  readonly plainWindow?: true;
};

/**
 * The settings of agents, as sentences. Agents that send the `user-agent` of their library are not known. The rows are of
 * the versions of deploy/local/launch/agents.ts; `test/agents/run` shows what becomes of each refusal.
 */
export const AGENT_CURES: readonly AgentRow[] = [
  {
    by: { userAgent: "claude-cli/" },
    // 2.1.332 repeats a 400 of any other type up to five times, each time with a feature less.
    endsAtType: "policy_blocked",
    cures: {
      model: "Set ANTHROPIC_MODEL and ANTHROPIC_SMALL_FAST_MODEL.",
      hosted: 'Set "permissions": {"deny": ["WebSearch"]} in ~/.claude/settings.json.',
      window: "Set CLAUDE_CODE_MAX_CONTEXT_TOKENS.",
      effort: "Set CLAUDE_CODE_EFFORT_LEVEL.",
    },
  },
  {
    by: { userAgent: "codex" },
    cures: {
      model: "Set model in ~/.codex/config.toml.",
      hosted: 'Set web_search = "disabled" in ~/.codex/config.toml.',
      window: "Set model_context_window in ~/.codex/config.toml.",
      effort: "Set model_reasoning_effort in ~/.codex/config.toml.",
    },
  },
  {
    by: { userAgent: "opencode/" },
    cures: {
      model: "Set model in opencode.json.",
      window: "Set limit.context of the model in opencode.json.",
      effort: "Set options.reasoningEffort of the model in opencode.json.",
    },
  },
  {
    by: { header: "x-initiator" },
    // Copilot 1.0.102 asks for a summary, with more words than were too many, and repeats that eleven times.
    plainWindow: true,
    cures: { model: "Set COPILOT_MODEL.", window: "Set COPILOT_PROVIDER_MAX_PROMPT_TOKENS." },
  },
  {
    by: { userAgent: "QwenCode/" },
    cures: {
      model: "Set it by -m or OPENAI_MODEL.",
      window: "Set model.generationConfig.contextWindowSize in ~/.qwen/settings.json.",
      effort: "Set model.generationConfig.reasoning in ~/.qwen/settings.json.",
    },
  },
  {
    by: { userAgent: "kimi-code-cli/" },
    cures: {
      model: "Set KIMI_MODEL_NAME.",
      window: "Set KIMI_MODEL_MAX_CONTEXT_SIZE.",
      effort: "Set KIMI_MODEL_THINKING_EFFORT.",
    },
  },
  {
    by: { userAgent: "pi/" },
    cures: {
      model: "Set it by --model and in ~/.pi/agent/models.json.",
      window: "Set contextWindow of the model in ~/.pi/agent/models.json.",
      effort: "Set it by --thinking.",
    },
  },
  {
    by: { userAgent: "factory-cli/" },
    cures: {
      model: "Set it by -m and in ~/.factory/config.json.",
      effort: "Set it by --reasoning-effort.",
    },
  },
  {
    // LiteLLM 1.110, on openai 3, finds the kind of an error in its message, and mini-swe-agent repeats what it does not know.
    by: { userAgent: "OpenAI/Python" },
    cures: { model: "Choose one of them (invalid_request_error, model_not_found)." },
  },
];

/** What the callers that no row knows can do. */
const ANYONE: Cures = {
  hosted: "Leave it out; an operator can do so for responses, by formats.responses.unsupportedTools: skip.",
};

/** Returns the error; a refusal that a setting prevents names that of the agent that asks. */
export function cured(error: ApiError, headers: IncomingHttpHeaders): ApiError {
  const setting = settingOf(error);
  const row = setting && rowOf(headers);
  const cure = setting && (row?.cures[setting] ?? ANYONE[setting]);
  if (cure === undefined) return error;
  const { input_tokens: tokens, context_window: window } = error.facts ?? {};
  const plain = row?.plainWindow && setting === "window" && `The prompt has ${tokens} tokens, the model ${window}.`;
  const worded = (envelope: Envelope) => `${plain || ended(messageOf(error, envelope))} ${cure}`;
  return new ApiError(error.code, { a: worded("a"), b: worded("b") }, error.options);
}

/** Returns the body of an error that `cured` has returned. */
export function curedBody(
  error: ApiError,
  envelope: Envelope,
  requestId: string,
  headers: IncomingHttpHeaders,
): object {
  const setting = settingOf(error);
  const type = setting && setting !== "window" && rowOf(headers)?.endsAtType;
  if (!type || envelope !== "b") return errorBody(error, envelope, requestId);
  const body = errorBodyB(error, requestId);
  return { ...body, error: { ...body.error, type } };
}

function rowOf(headers: IncomingHttpHeaders): AgentRow | undefined {
  const userAgent = headers["user-agent"] ?? "";
  return AGENT_CURES.find(({ by }) =>
    "header" in by ? headers[by.header] !== undefined : userAgent.startsWith(by.userAgent),
  );
}

function settingOf({ code, detail, path = [] }: ApiError): AgentSetting | undefined {
  const known = OUTCOMES[detail].setting ?? OUTCOMES[code].setting;
  // Chat checks the type of a tool by its schema, which has no reason of its own.
  if (known || (path[0] === "tools" && path[2] === "type")) return known ?? "hosted";
  return /^(reasoning_)?effort$/.test(String(path.at(-1))) ? "effort" : undefined;
}

/** The words of messages may end without a full stop. */
function ended(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
