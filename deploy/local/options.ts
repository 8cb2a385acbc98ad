import { once } from "node:events";
import { createServer } from "node:net";
import { Command, InvalidArgumentError, Option } from "commander";
import { CATALOG } from "../../gateway/catalog.ts";
import { modelNameSchema } from "../../gateway/config.ts";
import { errnoOf } from "../runtime/files/private-file.ts";
import { programVersion } from "../runtime/files/project-folder.ts";

export type LocalOptions = {
  /** Ports; 0 is any free one. Those of further engine nodes follow that of the first. */
  readonly port: number;
  readonly adminPort: number;
  readonly enginePort: number;
  readonly metricsPort: number;
  /** The gRPC listener of the gateway; absent: none. */
  readonly grpcPort?: number;
  /** Address of the listeners for callers; absent: 127.0.0.1. */
  readonly host?: string;
  /** Origins whose pages may call the API. */
  readonly allowOrigin?: readonly string[];
  readonly stateDir: string;
  /** Path of a GGUF file, `hf:org/repo:quant` or `scripted`; absent: the demonstration model. */
  readonly model?: string;
  /** The id of the model for callers; absent: all ids of the catalog. */
  readonly modelName?: string;
  /** Path of a file with the model's chat template; absent: the template in the model's file. */
  readonly chatTemplate?: string;
  /** Tokens of prompt and answer together, per generation; absent: depends on the model. */
  readonly contextTokens?: number;
  readonly engines: number;
  /** Seconds for which the gateway accepts connections after a stop signal, while `/ready` fails. */
  readonly drainGrace: number;
  /** What becomes of system messages inside Format B's messages; Claude Code sends some. */
  readonly systemRole: "reject" | "merge";
  /** Whether coding agents as installed are served: system messages are merged, and hosted tools left out. */
  readonly agents?: true;
  /** The agent to start on this terminal, with `agentArgs`; false: one that another process starts. */
  readonly agent?: string | false;
  readonly agentArgs: readonly string[];
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly logFormat: "auto" | "json" | "text";
};

function whole(minimum: number, maximum: number) {
  return (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < minimum || value > maximum)
      throw new InvalidArgumentError(`Expected a whole number from ${minimum} to ${maximum}.`);
    return value;
  };
}

function modelId(text: string): string {
  const checked = modelNameSchema.safeParse(text);
  if (!checked.success) throw new InvalidArgumentError(checked.error.issues[0]?.message ?? "");
  return checked.data;
}

const HIGHEST_PORT = 65_535;
const port = whole(0, HIGHEST_PORT);

/** Returns the port of the program at `index`, from 0, if the first one has the port `first`; 0 stays any free port. */
const following = (first: number, index: number): number => (first === 0 ? 0 : first + index);

export const enginePort = ({ enginePort }: LocalOptions, index: number): number => following(enginePort, index);
export const metricsPort = ({ metricsPort }: LocalOptions, index: number): number => following(metricsPort, index);

export function wantedPorts(options: LocalOptions): readonly WantedPort[] {
  const ofEngines = (flag: string, portAt: (options: LocalOptions, index: number) => number) =>
    Array.from({ length: options.engines }, (_, index) => ({ flag, port: portAt(options, index) }));
  const host = options.host === undefined ? {} : { host: options.host };
  return [
    { flag: "--port", port: options.port, ...host },
    ...(options.grpcPort === undefined ? [] : [{ flag: "--grpc-port", port: options.grpcPort, ...host }]),
    { flag: "--admin-port", port: options.adminPort },
    ...ofEngines("--engine-port", enginePort),
    ...ofEngines("--metrics-port", metricsPort),
  ];
}

export function parseOptions(argv: readonly string[]): LocalOptions {
  const command = startCommand().parse([...argv], { from: "user" });
  const options = { ...command.opts<LocalOptions>(), agentArgs: command.args };
  if (options.agent === undefined && command.args.length > 0)
    command.error(`error: ${command.args[0]}: arguments are for an agent of --agent`);
  const seen = new Map<number, string>([[0, ""]]);
  for (const { flag, port } of wantedPorts(options)) {
    if (port > HIGHEST_PORT) command.error(`error: ${flag}: the ports that follow it go beyond ${HIGHEST_PORT}`);
    const other = seen.get(port);
    if (port !== 0 && other !== undefined) command.error(`error: ${flag}: ${port} is asked for by ${other}, too`);
    seen.set(port, flag);
  }
  return options;
}

function startCommand(): Command {
  return new Command("start")
    .description(`Starts the whole service on this machine, with one model under all of ${CATALOG.length} model ids.`)
    .version(programVersion("start"), "--version", "print name and version")
    .showHelpAfterError("(--help lists the options)")
    .option("--port <n>", "the API; 0 picks a free port", port, 8080)
    .option("--admin-port <n>", "admin listener of the gateway; 0 picks a free port", port, 9901)
    .option("--host <address>", "address of the API, such as 0.0.0.0 for all of this machine (default: 127.0.0.1)")
    .option("--grpc-port <n>", "the API by gRPC, too; 0 picks a free port", port)
    .option("--allow-origin <origin...>", "pages that may call the API, such as http://localhost:5173, or *")
    .option("--engine-port <n>", "gRPC of the first engine node, the others' follow; 0 picks free ports", port, 50_051)
    .option("--metrics-port <n>", "metrics of the first engine node, the others' follow; 0 picks free ports", port, 0)
    .option("--state-dir <folder>", "keys and generated configuration", ".svc")
    .option("--model <file>", "a GGUF file, hf:org/repo:quant or scripted (default: the demonstration model)")
    .option("--model-name <id>", "serve the model under this id; the others stay good as aliases", modelId)
    .option("--chat-template <file>", "the model's chat template in Jinja, for a GGUF file without one")
    .option("--context-tokens <n>", "prompt and answer together, per generation", whole(256, 4_194_304))
    .option("--engines <n>", "engine nodes", whole(1, 64), 1)
    .option("--drain-grace <s>", "time for a proxy in front to detect that the gateway stops", whole(0, 3_600), 0)
    .option("--agents", "take what agents send as installed: merge system messages, leave hosted tools out")
    .option("--agent <name>", "start this agent, such as claude or codex, on this terminal, and stop when it ends")
    .addOption(new Option("--no-agent").hideHelp())
    .argument("[arguments...]", "of the agent, behind --")
    .addOption(
      new Option("--system-role <rule>", "system messages inside Format B's messages, as Claude Code sends them")
        .choices(["reject", "merge"])
        .default("reject"),
    )
    .addOption(
      new Option("--log-level <level>", "what is written to standard error")
        .choices(["debug", "info", "warn", "error"])
        .default("warn"),
    )
    .addOption(
      new Option("--log-format <format>", "how it is written; auto is text on a terminal, JSON elsewhere")
        .choices(["auto", "json", "text"])
        .default("auto"),
    )
    .exitOverride();
}

/** Ports that cannot be bound; the message has a line for each, and the flags that help. */
export class PortError extends Error {
  override readonly name = "PortError";

  constructor(faults: readonly PortFault[]) {
    super(faultText(faults));
  }
}

/** A port that cannot be bound. */
export type PortFault = { readonly flag: string; readonly text: string; readonly isTaken: boolean };

/** Default of `host`: 127.0.0.1. */
export type WantedPort = { readonly flag: string; readonly port: number; readonly host?: string };

/** Resolves to the ports that cannot be bound. */
export async function portFaults(wanted: readonly WantedPort[]): Promise<readonly PortFault[]> {
  const faults: PortFault[] = [];
  for (const { flag, port, host = "127.0.0.1" } of wanted) {
    if (port === 0 && host === "127.0.0.1") continue;
    const server = createServer();
    try {
      server.listen({ host, port, exclusive: true });
      await once(server, "listening");
    } catch (error) {
      const text = `${flag}: ${host}:${port} ${reasonOf(error)}`;
      faults.push({ flag, text, isTaken: errnoOf(error) === "EADDRINUSE" });
      continue;
    }
    server.close();
    await once(server, "close");
  }
  return faults;
}

/** Returns a line for each fault, and one with `more` and the flags by which a second start finds free ports. */
export function faultText(faults: readonly PortFault[], more = ""): string {
  const flags = new Set(faults.flatMap(({ flag, isTaken }) => (isTaken ? [`${flag} 0`] : [])));
  const remedy = [more, ...flags].filter(Boolean).join(" ");
  return [...faults.map(({ text }) => text), ...(remedy ? [`free ones: npm start -- ${remedy}`] : [])].join("\n");
}

function reasonOf(error: unknown): string {
  const code = errnoOf(error);
  if (code === "EADDRINUSE") return "is in use by another process";
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") return "is no address of this machine (--host)";
  return code === "EACCES" ? "may not be listened on by this user" : `cannot be listened on (${code})`;
}
