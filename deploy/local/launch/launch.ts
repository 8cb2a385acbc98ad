import { homedir } from "node:os";
import { Command, InvalidArgumentError } from "commander";
import { meant } from "../../runtime/config/config-faults.ts";
import { FileError } from "../../runtime/files/private-file.ts";
import { programVersion } from "../../runtime/files/project-folder.ts";
import { runMain } from "../../runtime/process/run-main.ts";
import { findProgram, runAgent, settingsFiles } from "./agent-run.ts";
import { AGENTS, type Agent, type ModelAccess } from "./agents.ts";
import { type Asked, EXIT, findModelAccess, LaunchError } from "./model-access.ts";

/*
 * `svc launch AGENT`: a coding agent against a running service, with the settings of the table.
 */

type LaunchOptions = Asked & { readonly program?: string; readonly config?: true };

/** Returns the agent of a program, or of its name in small letters with hyphens. Throws `LaunchError`. */
export function findAgent(word: string): Agent {
  const named = ({ name }: Agent) => name.toLowerCase().replaceAll(" ", "-");
  const found = AGENTS.find((agent) => agent.program === word || named(agent) === word.toLowerCase());
  if (found) return found;
  const names = AGENTS.map(({ program }) => program);
  const near = meant(word, [...names, ...AGENTS.map(named)]);
  throw new LaunchError(EXIT.usage, `there is no agent ${word}${near}; there are ${names.join(", ")}`);
}

function httpUrl(text: string): string {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text))
    throw new InvalidArgumentError("Expected http://… or https://….");
  return text;
}

const launchCommand = (): Command =>
  new Command("launch")
    .description(
      "Starts a coding agent against a running service. Your own settings of it are neither read nor changed.",
    )
    .version(programVersion("launch"), "--version", "print name and version")
    .argument("<agent>", AGENTS.map(({ program }) => program).join(", "))
    .argument("[arguments...]", "of the agent, behind --")
    .option("--url <url>", "the service, without /v1", httpUrl, "http://127.0.0.1:8080")
    .option("--key <key>", "API key (or SVC_API_KEY; default: that of npm start on this machine)")
    .option("--state-dir <folder>", "that of npm start, for its key", ".svc")
    .option("--model <id>", "the model (default: the first that the key may use)")
    .option("--small-model <id>", "the model for side requests, such as titles (default: the model)")
    .option("--program <path>", "the agent's program (default: its name in PATH)")
    .option("--config", "only print settings, with the key")
    .addHelpText(
      "after",
      `\nExit codes: that of the agent; ${EXIT.usage} usage, ${EXIT.service} no service, key or model, ${EXIT.notInstalled} the agent is not installed.`,
    )
    .exitOverride();

/** Runs `svc launch` with the options `argv`. Resolves to the exit code, as `runMain` does. */
export function launch(argv: readonly string[]): Promise<number> {
  return runMain({
    name: "launch",
    exitCodeOf: launchExitCode,
    run: async () => {
      const command = launchCommand().parse([...argv], { from: "user" });
      const [word = "", ...args] = command.args;
      const agent = findAgent(word);
      const { config, program, key = process.env.SVC_API_KEY, ...options } = command.opts<LaunchOptions>();
      const found = config ? "" : (program ?? findProgram(agent));
      const access = await findModelAccess({ ...options, ...(key && { key }) });
      if (!config) return runAgent(agent, access, found, args);
      process.stdout.write(await configText(agent, access));
      return 0;
    },
  });
}

export function launchExitCode(error: unknown): number | undefined {
  if (error instanceof FileError) return EXIT.usage;
  return error instanceof LaunchError ? error.exitCode : undefined;
}

/** Resolves to the settings of an agent in the user's home folder, as a person puts them there. */
async function configText(agent: Agent, access: ModelAccess): Promise<string> {
  const files = await settingsFiles(agent.files?.(access) ?? {}, access, homedir());
  const variables = Object.entries(agent.env?.(access) ?? {}).map(([name, value]) => `export ${name}=${value}\n`);
  return [
    ...Object.entries(files).map(([path, text]) => `# ${path}\n${text.trimEnd()}\n\n`),
    ...variables,
    `${[agent.program, ...(agent.always?.(access) ?? [])].join(" ")}\n`,
  ].join("");
}
