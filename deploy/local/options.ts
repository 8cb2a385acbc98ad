import { Command, InvalidArgumentError, Option } from "commander";
import { CATALOG } from "../../gateway/catalog.ts";
import { programVersion } from "../runtime/files/project-folder.ts";
import type { WantedPort } from "./free-ports.ts";

/** The options of `npm start`, with their defaults. */
export type LocalOptions = {
  /** The port of the API; 0 stands for any free one. Default: 8080. */
  readonly port: number;
  /** The port of the gateway's admin listener; 0 stands for any free one. Default: 9901. */
  readonly adminPort: number;
  /**
   * The gRPC port of the first engine node, which those of the others follow; 0 stands for any free ones. Default:
   * 50051.
   */
  readonly enginePort: number;
  /**
   * The port of the first engine node's metrics, which those of the others follow; 0 stands for any free ones. Default:
   * 0.
   */
  readonly metricsPort: number;
  /** The folder of keys and generated configuration. Default: `.svc` in the working directory. */
  readonly stateDir: string;
  /** The path of a GGUF file, `hf:org/repo:quant`, `scripted` or `simulator`; absent for the demonstration model. */
  readonly model?: string;
  /** The tokens of prompt and answer together, for one generation; absent for what suits the model. */
  readonly contextTokens?: number;
  /** The number of engine nodes, 1 to 64. Default: 1. */
  readonly engines: number;
  /**
   * The time, in seconds, for which the gateway goes on taking connections after the order to end, while its `/ready`
   * fails: what a proxy in front needs to notice. Default: 0.
   */
  readonly drainGrace: number;
  /** The least severe entries of the log that are written. Default: `warn`. */
  readonly logLevel: "debug" | "info" | "warn" | "error";
};

/** Makes the parser of an option that takes a whole number from `minimum` to `maximum`. */
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

/**
 * Returns the port of the program at `index`, from 0, where the first one has the port `first`; 0 stays any free port.
 */
const following = (first: number, index: number): number => (first === 0 ? 0 : first + index);

/** Returns the gRPC port of the engine node at `index`, from 0; 0 stands for any free port. */
export const enginePort = ({ enginePort }: LocalOptions, index: number): number => following(enginePort, index);
/** Returns the port of the metrics of the engine node at `index`, from 0; 0 stands for any free port. */
export const metricsPort = ({ metricsPort }: LocalOptions, index: number): number => following(metricsPort, index);

/** Returns all ports that the options ask for, with their flags. */
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
 * Reads the command line, `argv` without the program. Throws commander's error for a bad one, and for `--help` and
 * `--version`.
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
    .option(
      "--model <file>",
      "a GGUF file, hf:org/repo:quant, scripted or simulator (default: the demonstration model)",
    )
    .option("--context-tokens <n>", "prompt and answer together, per generation", whole(256, 4_194_304))
    .option("--engines <n>", "engine nodes", whole(1, 64), 1)
    .option("--drain-grace <s>", "time for a proxy in front to notice that the gateway ends", whole(0, 3_600), 0)
    .addOption(
      new Option("--log-level <level>", "what is written to standard error")
        .choices(["debug", "info", "warn", "error"])
        .default("warn"),
    )
    .allowExcessArguments(false)
    .exitOverride();
}
