import { Command, InvalidArgumentError, Option } from "commander";
import { CATALOG } from "../../gateway/catalog.ts";
import { programVersion } from "../runtime/files/project-folder.ts";
import type { WantedPort } from "./free-ports.ts";

export type LocalOptions = {
  /** Port of the API; 0: any free one. Default: 8080. */
  readonly port: number;
  /** Port of the gateway's admin listener; 0: any free one. Default: 9901. */
  readonly adminPort: number;
  /** gRPC port of the first engine node; the other nodes use the next ones; 0: any free ones. Default: 50051. */
  readonly enginePort: number;
  /** Metrics port of the first engine node; the other nodes use the next ones; 0: any free ones. Default: 0. */
  readonly metricsPort: number;
  /** Folder of keys and generated configuration. Default: `.svc` in the working directory. */
  readonly stateDir: string;
  /** Path of a GGUF file, `hf:org/repo:quant` or `scripted`; absent: the demonstration model. */
  readonly model?: string;
  /** Tokens of prompt and answer together, per generation; absent: depends on the model. */
  readonly contextTokens?: number;
  /** Number of engine nodes, 1 to 64. Default: 1. */
  readonly engines: number;
  /**
   * Seconds for which the gateway accepts connections after a stop signal, while `/ready` fails, so that a proxy in
   * front can react. Default: 0.
   */
  readonly drainGrace: number;
  /** Minimum log level. Default: `warn`. */
  readonly logLevel: "debug" | "info" | "warn" | "error";
};

/** Makes the parser of an option with an integer from `minimum` to `maximum`. */
function whole(minimum: number, maximum: number) {
  return (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < minimum || value > maximum)
      throw new InvalidArgumentError(`Expected a whole number from ${minimum} to ${maximum}.`);
    return value;
  };
}

const HIGHEST_PORT = 65_535;
const port = whole(0, HIGHEST_PORT);

/** Returns the port of the program at `index`, from 0, if the first one has the port `first`; 0 stays any free port. */
const following = (first: number, index: number): number => (first === 0 ? 0 : first + index);

/** Returns the gRPC port of the engine node at `index`, from 0; 0: any free port. */
export const enginePort = ({ enginePort }: LocalOptions, index: number): number => following(enginePort, index);
/** Returns the metrics port of the engine node at `index`, from 0; 0: any free port. */
export const metricsPort = ({ metricsPort }: LocalOptions, index: number): number => following(metricsPort, index);

/** Returns all requested ports with their flags. */
export function wantedPorts(options: LocalOptions): readonly WantedPort[] {
  const ofEngines = (flag: string, portAt: (options: LocalOptions, index: number) => number) =>
    Array.from({ length: options.engines }, (_, index) => ({ flag, port: portAt(options, index) }));
  return [
    { flag: "--port", port: options.port },
    { flag: "--admin-port", port: options.adminPort },
    ...ofEngines("--engine-port", enginePort),
    ...ofEngines("--metrics-port", metricsPort),
  ];
}

/**
 * Parses the command line, `argv` without the program. Throws commander's error for an invalid one, and for `--help`
 * and `--version`.
 */
export function parseOptions(argv: readonly string[]): LocalOptions {
  const command = startCommand().parse([...argv], { from: "user" });
  const options = command.opts<LocalOptions>();
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
    .option("--port <n>", "the API; 0 picks a free port", port, 8080)
    .option("--admin-port <n>", "admin listener of the gateway; 0 picks a free port", port, 9901)
    .option("--engine-port <n>", "gRPC of the first engine node, the others' follow; 0 picks free ports", port, 50_051)
    .option("--metrics-port <n>", "metrics of the first engine node, the others' follow; 0 picks free ports", port, 0)
    .option("--state-dir <folder>", "keys and generated configuration", ".svc")
    .option("--model <file>", "a GGUF file, hf:org/repo:quant or scripted (default: the demonstration model)")
    .option("--context-tokens <n>", "prompt and answer together, per generation", whole(256, 4_194_304))
    .option("--engines <n>", "engine nodes", whole(1, 64), 1)
    .option("--drain-grace <s>", "time for a proxy in front to detect that the gateway stops", whole(0, 3_600), 0)
    .addOption(
      new Option("--log-level <level>", "what is written to standard error")
        .choices(["debug", "info", "warn", "error"])
        .default("warn"),
    )
    .allowExcessArguments(false)
    .exitOverride();
}
