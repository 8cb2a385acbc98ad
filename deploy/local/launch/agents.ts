/*
 * The settings of coding agents. One table: `svc launch` starts agents with it, the page gateway/docs/agents.md shows it,
 * and `test/agents/run` installs the agents and runs them with it.
 */

/** Where an agent finds the service. */
export type ModelAccess = {
  /** Base address without `/v1`. */
  readonly baseUrl: string;
  readonly key: string;
  /** Id of the model that does the work. */
  readonly model: string;
  /** Id of the model for side requests, such as titles. */
  readonly smallModel: string;
  /** Tokens of prompt and answer together. */
  readonly contextTokens: number;
};

/** A path below the home folder. `own` is the agent's entry in a folder that other programs use, too. */
export type MovedFolder = string | { readonly shared: string; readonly own: string };

export type Agent = {
  readonly name: string;
  /** The newest version that the lane ran. */
  readonly version: string;
  readonly formats: string;
  readonly registry: "npm" | "PyPI";
  readonly package: string;
  readonly program: string;
  /** Environment variables. */
  readonly env?: (access: ModelAccess) => Readonly<Record<string, string>>;
  /** Files by their paths below the home folder. A text that begins with `/` is a path of the service to fetch them from. */
  readonly files?: (access: ModelAccess) => Readonly<Record<string, string>>;
  /** The files with which it keeps the instructions of its vendor, where those of the page bring others. */
  readonly ownInstructions?: (access: ModelAccess) => Readonly<Record<string, string>>;
  /** Variables that move folders of the agent. */
  readonly folders: Readonly<Record<string, MovedFolder>>;
  /** Further files of an agent with folders of its own, by their paths below the home folder. */
  readonly ownFiles?: (access: ModelAccess) => Readonly<Record<string, string>>;
  /** Further variables of such an agent; undefined: one of the user that would lead it to another service. */
  readonly ownEnv?: Readonly<Record<string, string | undefined>>;
  /** Arguments of each start. */
  readonly always?: (access: ModelAccess) => readonly string[];
  /** Further arguments that do `task` without questions. */
  readonly task: (task: string, access: ModelAccess) => readonly string[];
  /** A first try, with base address and key only. Absent: the agent does not start without more. */
  readonly firstTry?: {
    readonly env: (access: ModelAccess) => Readonly<Record<string, string>>;
    /** Default: `taskArgs`. */
    readonly args?: Agent["task"];
  };
  /** The names of models that it sends where none is set; `small` are for side requests. */
  readonly defaults?: { readonly main: readonly string[]; readonly small?: readonly string[] };
  /** What the page says besides, in Markdown. */
  readonly note?: string;
};

/** Returns all arguments with which an agent does `task` without questions. */
export function taskArgs(agent: Agent, task: string, access: ModelAccess): readonly string[] {
  return [...(agent.always?.(access) ?? []), ...agent.task(task, access)];
}

/** Claude Code keeps 33,000 tokens of its setting free, so a window below `small` needs `added` more; both in tokens. */
const CLAUDE_CODE = { added: 28_000, small: 65_536 };

/** Returns the setting of Claude Code for a window of `tokens`. */
export function claudeCodeWindow(tokens: number): number {
  return tokens < CLAUDE_CODE.small ? tokens + CLAUDE_CODE.added : tokens;
}

/** Returns the folders of a program that keeps to the XDG base directories. */
function xdgFolders(own: string): Agent["folders"] {
  return {
    XDG_CONFIG_HOME: { shared: ".config", own },
    XDG_DATA_HOME: { shared: ".local/share", own },
    XDG_STATE_HOME: { shared: ".local/state", own },
    XDG_CACHE_HOME: { shared: ".cache", own },
  };
}

/** Tokens that an agent may ask for in one answer. */
function answerTokens(contextTokens: number): number {
  return Math.min(32_000, Math.floor(contextTokens / 4));
}

const CODEX_CATALOG = 'model_catalog_json = "~/.codex/svc.json"   # the path in full';

/** Returns the configuration of Codex; `model` is the line that describes the model. */
function codexConfig({ baseUrl, model }: ModelAccess, described: string): string {
  return `model = "${model}"
model_provider = "svc"
${described}
web_search = "disabled"

[model_providers.svc]
name = "svc"
base_url = "${baseUrl}/v1"
env_key = "SVC_API_KEY"
wire_api = "responses"
`;
}

/** Lists of one text stay on a line. */
const json = (value: object): string => `${JSON.stringify(value, null, 2).replace(/\[\s+("[^"]*")\s+\]/g, "[$1]")}\n`;

export const AGENTS: readonly Agent[] = [
  {
    name: "Claude Code",
    version: "2.1.332",
    formats: "messages",
    registry: "npm",
    package: "@anthropic-ai/claude-code",
    program: "claude",
    folders: { CLAUDE_CONFIG_DIR: ".claude" },
    env: ({ baseUrl, key, model, smallModel, contextTokens }) => ({
      ANTHROPIC_BASE_URL: baseUrl,
      ANTHROPIC_API_KEY: key,
      ANTHROPIC_MODEL: model,
      ANTHROPIC_SMALL_FAST_MODEL: smallModel,
      ANTHROPIC_DEFAULT_HAIKU_MODEL: smallModel,
      ANTHROPIC_DEFAULT_SONNET_MODEL: model,
      ANTHROPIC_DEFAULT_OPUS_MODEL: model,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      CLAUDE_CODE_MAX_CONTEXT_TOKENS: `${claudeCodeWindow(contextTokens)}`,
    }),
    files: () => ({
      ".claude/settings.json": json({ permissions: { deny: ["WebSearch"] }, skipWebFetchPreflight: true }),
    }),
    // A first start asks its vendor, and whether the key may be used.
    ownFiles: ({ key }) => ({
      ".claude/.claude.json": json({
        hasCompletedOnboarding: true,
        customApiKeyResponses: { approved: [key.slice(-20)], rejected: [] },
      }),
    }),
    ownEnv: {
      ANTHROPIC_AUTH_TOKEN: undefined,
      CLAUDE_CODE_OAUTH_TOKEN: undefined,
      CLAUDE_CODE_USE_BEDROCK: undefined,
      CLAUDE_CODE_USE_FOUNDRY: undefined,
      CLAUDE_CODE_USE_VERTEX: undefined,
    },
    task: (task) => ["-p", task, "--permission-mode", "acceptEdits"],
    note: `Without \`--agents\` it gets the 400 that it knows for a system message inside \`messages\`, at the start of each session and sub-agent and
after each compaction, and repeats the request: 15 requests, not 11, for a task with three sub-agents. \`WebSearch\` is a hosted tool, so it is denied here;
\`WebFetch\` would ask the vendor first without the second setting. Search comes by an MCP server. With \`CLAUDE_CODE_GATEWAY_HINT_HEADERS=1\` it says who
waits for each request, which [routing](routing.md#who-waits) uses.`,
    firstTry: { env: ({ baseUrl, key }) => ({ ANTHROPIC_BASE_URL: baseUrl, ANTHROPIC_API_KEY: key }) },
    defaults: { main: ["claude-opus-5-5"], small: ["claude-haiku-4-5-20251001"] },
  },
  {
    name: "Codex",
    version: "0.171.0",
    formats: "responses",
    registry: "npm",
    package: "@openai/codex",
    program: "codex",
    folders: { CODEX_HOME: ".codex" },
    env: ({ key }) => ({ SVC_API_KEY: key }),
    files: (access) => ({
      ".codex/svc.json": "/v1/models?client_version=0.171.0",
      ".codex/config.toml": codexConfig(access, CODEX_CATALOG),
    }),
    // Its daemon would outlive the folder.
    ownFiles: (access) => ({
      ".codex/config.toml": `${codexConfig(access, CODEX_CATALOG)}\n[features]\ndaemon_auto_start = false\n`,
    }),
    ownInstructions: (access) => ({
      ".codex/config.toml": codexConfig(access, `model_context_window = ${access.contextTokens}`),
    }),
    task: (task) => ["exec", "--skip-git-repo-check", "--sandbox", "workspace-write", task],
    firstTry: {
      env: ({ key }) => ({ CODEX_API_KEY: key }),
      args: (task, { baseUrl }) => {
        const exec = ["exec", "--skip-git-repo-check", "--sandbox", "workspace-write"];
        return [...exec, "-c", `openai_base_url="${baseUrl}/v1"`, task];
      },
    },
    defaults: { main: ["gpt-6.2-sol"] },
    note: `The catalog has the windows, images and levels of reasoning of your models; it switches the patch tool and the search of tools on, and has short
instructions, as Codex takes no catalog without any. With \`model_context_window\` in its place Codex keeps its vendor's, at
[2.7 times the tokens](agents-tried.md#instructions-of-codex); with neither a request is refused. Under an alias
such as \`gpt-5.5\` Codex has the vendor's instructions and tools, and its window of 272,000 tokens unless the catalog says otherwise. With its own
provider and \`openai_base_url\` in its place Codex speaks WebSocket, which works as well; \`web_search\` is needed there, too, unless \`--agents\` is set.`,
  },
  {
    name: "OpenCode",
    version: "1.18.33",
    formats: "chat; responses with `@ai-sdk/openai`, messages with `@ai-sdk/anthropic`",
    registry: "npm",
    package: "opencode-ai",
    program: "opencode",
    folders: xdgFolders("opencode"),
    // It installs a package into its folder.
    ownFiles: () => ({ ".config/opencode/.npmrc": "cache=~/.npm\n" }),
    files: ({ baseUrl, key, model, contextTokens }) => ({
      ".config/opencode/opencode.json": json({
        model: `svc/${model}`,
        provider: {
          svc: {
            npm: "@ai-sdk/openai-compatible",
            options: { baseURL: `${baseUrl}/v1`, apiKey: key },
            models: { [model]: { limit: { context: contextTokens, output: answerTokens(contextTokens) } } },
          },
        },
      }),
    }),
    task: (task) => ["run", task],
    firstTry: { env: ({ baseUrl, key }) => ({ OPENAI_BASE_URL: `${baseUrl}/v1`, OPENAI_API_KEY: key }) },
    defaults: { main: ["gpt-5.6-terra"], small: ["gpt-5.4-nano"] },
  },
  {
    name: "GitHub Copilot CLI",
    version: "1.0.102",
    formats: "chat; `responses`, or the type `anthropic` with the base address without `/v1`",
    registry: "npm",
    package: "@github/copilot",
    program: "copilot",
    ownEnv: { COPILOT_PROVIDER_BEARER_TOKEN: undefined },
    folders: { COPILOT_HOME: ".copilot", XDG_CACHE_HOME: { shared: ".cache", own: "copilot" } },
    env: ({ baseUrl, key, model, contextTokens }) => ({
      COPILOT_OFFLINE: "true",
      COPILOT_PROVIDER_BASE_URL: `${baseUrl}/v1`,
      COPILOT_PROVIDER_TYPE: "openai",
      COPILOT_PROVIDER_WIRE_API: "completions",
      COPILOT_PROVIDER_API_KEY: key,
      COPILOT_MODEL: model,
      COPILOT_PROVIDER_MAX_PROMPT_TOKENS: `${contextTokens}`,
    }),
    task: (task) => ["-p", task, "--allow-all-tools"],
  },
  {
    name: "Qwen Code",
    version: "0.24.4",
    formats: "chat; messages with `--auth-type anthropic` and `ANTHROPIC_…`",
    registry: "npm",
    package: "@qwen-code/qwen-code",
    program: "qwen",
    folders: { QWEN_HOME: ".qwen" },
    env: ({ baseUrl, key }) => ({ OPENAI_BASE_URL: `${baseUrl}/v1`, OPENAI_API_KEY: key }),
    files: ({ contextTokens }) => ({
      ".qwen/settings.json": json({ model: { generationConfig: { contextWindowSize: contextTokens } } }),
    }),
    always: ({ model }) => ["--auth-type", "openai", "-m", model],
    task: (task) => ["--yolo", "-p", task],
    firstTry: {
      env: ({ baseUrl, key }) => ({ OPENAI_BASE_URL: `${baseUrl}/v1`, OPENAI_API_KEY: key }),
      args: (task) => ["--auth-type", "openai", "--yolo", "-p", task],
    },
    defaults: { main: ["qwen3.7-max"] },
  },
  {
    name: "Kimi Code",
    version: "2.1.0",
    formats: "chat; `openai_responses`, or `anthropic` with the base address without `/v1`",
    registry: "npm",
    package: "@moonshot-ai/kimi-code",
    program: "kimi",
    folders: { KIMI_CODE_HOME: ".kimi-code" },
    env: ({ baseUrl, key, model, contextTokens }) => ({
      KIMI_MODEL_NAME: model,
      KIMI_MODEL_API_KEY: key,
      KIMI_MODEL_BASE_URL: `${baseUrl}/v1`,
      KIMI_MODEL_PROVIDER_TYPE: "openai",
      KIMI_MODEL_MAX_CONTEXT_SIZE: `${contextTokens}`,
    }),
    task: (task) => ["-p", task],
  },
  {
    name: "Cline",
    version: "3.0.65",
    formats: "chat",
    registry: "npm",
    package: "cline",
    program: "cline",
    folders: { CLINE_DIR: ".cline" },
    // Its daemon has the settings of the session that started it.
    ownEnv: { CLINE_SESSION_BACKEND_MODE: "local" },
    files: ({ baseUrl, key, model, contextTokens }) => ({
      ".cline/data/settings/providers.json": json({
        version: 1,
        lastUsedProvider: "openai-compatible",
        providers: {
          "openai-compatible": {
            settings: {
              provider: "openai-compatible",
              apiKey: key,
              model,
              baseUrl: `${baseUrl}/v1`,
              contextWindow: contextTokens,
            },
            updatedAt: "2026-01-01T00:00:00.000Z",
            tokenSource: "manual",
          },
        },
      }),
    }),
    task: (task) => ["--auto-approve", "true", task],
  },
  {
    name: "Continue",
    version: "1.5.47",
    formats: "chat; messages with `provider: anthropic`",
    registry: "npm",
    package: "@continuedev/cli",
    program: "cn",
    folders: { CONTINUE_GLOBAL_DIR: ".continue" },
    files: ({ baseUrl, key, model, contextTokens }) => ({
      ".continue/config.yaml": `name: svc
version: 1.0.0
schema: v1
models:
  - name: ${model}
    provider: openai
    model: ${model}
    apiBase: ${baseUrl}/v1/
    apiKey: ${key}
    capabilities: [tool_use]
    roles: [chat]
    defaultCompletionOptions: { contextLength: ${contextTokens} }
`,
    }),
    always: () => ["--config", "~/.continue/config.yaml"],
    task: (task) => ["-p", task, "--auto"],
  },
  {
    name: "pi",
    version: "1.6.0",
    formats: "chat; `openai-responses`, or `anthropic-messages` with the base address without `/v1`",
    registry: "npm",
    package: "@earendil-works/pi-coding-agent",
    program: "pi",
    folders: { PI_CODING_AGENT_DIR: ".pi/agent" },
    files: ({ baseUrl, key, model, contextTokens }) => ({
      ".pi/agent/models.json": json({
        providers: {
          svc: {
            baseUrl: `${baseUrl}/v1`,
            api: "openai-completions",
            apiKey: key,
            models: [{ id: model, contextWindow: contextTokens, maxTokens: answerTokens(contextTokens) }],
          },
        },
      }),
    }),
    always: ({ model }) => ["--provider", "svc", "--model", model],
    task: (task) => ["-p", task],
  },
  {
    name: "Grok CLI",
    version: "0.0.34",
    formats: "chat",
    registry: "npm",
    package: "@vibe-kit/grok-cli",
    program: "grok",
    folders: { HOME: { shared: "", own: ".grok" } },
    env: ({ baseUrl, key, model }) => ({ GROK_BASE_URL: `${baseUrl}/v1`, GROK_API_KEY: key, GROK_MODEL: model }),
    task: (task) => ["-p", task],
    firstTry: { env: ({ baseUrl, key }) => ({ GROK_BASE_URL: `${baseUrl}/v1`, GROK_API_KEY: key }) },
    defaults: { main: ["grok-code-fast-1"] },
  },
  {
    name: "nanocoder",
    version: "1.30.0",
    formats: "chat",
    registry: "npm",
    package: "@nanocollective/nanocoder",
    program: "nanocoder",
    folders: {
      NANOCODER_CONFIG_DIR: ".config/nanocoder",
      NANOCODER_DATA_DIR: ".local/share/nanocoder",
      NANOCODER_LOG_DIR: ".local/state/nanocoder/logs",
    },
    env: () => ({ NANOCODER_TRUST_DIRECTORY: "1" }),
    files: ({ baseUrl, key, model }) => ({
      ".config/nanocoder/agents.config.json": json({
        nanocoder: { providers: [{ name: "svc", baseUrl: `${baseUrl}/v1`, apiKey: key, models: [model] }] },
      }),
    }),
    always: ({ model }) => ["--provider", "svc", "--model", model],
    task: (task) => ["--mode", "yolo", "run", task],
  },
  {
    name: "Factory droid",
    version: "0.215.0",
    formats: "chat",
    registry: "npm",
    package: "droid",
    program: "droid",
    folders: { FACTORY_HOME_OVERRIDE: "" },
    files: ({ baseUrl, key, model, contextTokens }) => ({
      ".factory/config.json": json({
        custom_models: [
          {
            model_display_name: model,
            model,
            base_url: `${baseUrl}/v1`,
            api_key: key,
            provider: "generic-chat-completion-api",
            max_tokens: answerTokens(contextTokens),
          },
        ],
      }),
    }),
    task: (task, { model }) => ["exec", "--auto", "high", "-m", `custom:${model}`, task],
  },
  {
    name: "Mistral Vibe",
    version: "3.0.2",
    formats: "chat",
    registry: "PyPI",
    package: "mistral-vibe",
    program: "vibe",
    folders: { VIBE_HOME: ".vibe" },
    env: ({ key }) => ({ SVC_API_KEY: key }),
    files: ({ baseUrl, model, contextTokens }) => ({
      ".vibe/config.toml": `active_model = "svc"
auto_compact_threshold = ${Math.floor(contextTokens * 0.75)}

[[providers]]
name = "svc"
api_base = "${baseUrl}/v1"
api_key_env_var = "SVC_API_KEY"
api_style = "openai"
backend = "generic"

[[models]]
name = "${model}"
provider = "svc"
alias = "svc"
`,
    }),
    task: (task) => ["--auto-approve", "-p", task],
  },
  {
    name: "Hermes",
    version: "0.19.0",
    formats: "chat",
    registry: "PyPI",
    package: "hermes-agent",
    program: "hermes",
    // It runs pip, which keeps the time of its last look at its own version.
    folders: { HERMES_HOME: ".hermes", XDG_CACHE_HOME: { shared: ".cache", own: "pip" } },
    files: ({ baseUrl, key, model, contextTokens }) => ({
      ".hermes/config.yaml": `model:
  provider: custom
  default: ${model}
  base_url: ${baseUrl}/v1
  api_key: ${key}
  context_length: ${contextTokens}
`,
    }),
    task: (task) => ["chat", "--yolo", "-q", task],
  },
  {
    name: "gptme",
    version: "0.35.1",
    formats: "chat",
    registry: "PyPI",
    package: "gptme",
    program: "gptme",
    folders: { HOME: { shared: "", own: ".config" }, ...xdgFolders("gptme") },
    env: ({ baseUrl, key }) => ({ OPENAI_BASE_URL: `${baseUrl}/v1`, OPENAI_API_KEY: key }),
    always: ({ model }) => ["--tool-format", "tool", "-m", `local/${model}`],
    task: (task) => ["--non-interactive", task],
  },
  {
    name: "mini-swe-agent",
    version: "2.4.6",
    formats: "chat",
    registry: "PyPI",
    package: "mini-swe-agent",
    program: "mini",
    folders: { MSWEA_GLOBAL_CONFIG_DIR: ".config/mini-swe-agent" },
    env: ({ baseUrl, key }) => ({
      OPENAI_API_BASE: `${baseUrl}/v1`,
      OPENAI_API_KEY: key,
      MSWEA_CONFIGURED: "true",
      MSWEA_COST_TRACKING: "ignore_errors",
    }),
    always: ({ model }) => ["-m", `openai/${model}`],
    task: (task) => ["-t", task, "-y", "--exit-immediately"],
  },
];

/** Returns the aliases that serve the names of models that agents send where none is set. */
export function agentAliases({ model, smallModel }: Pick<ModelAccess, "model" | "smallModel">): Record<string, string> {
  const served = AGENTS.flatMap(({ defaults }) => [
    ...(defaults?.main ?? []).map((name) => [name, model] as const),
    ...(defaults?.small ?? []).map((name) => [name, smallModel] as const),
  ]);
  return Object.fromEntries(served);
}
