import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { stringify } from "yaml";
import { CATALOG } from "../../gateway/catalog.ts";
import { issueLocalKey } from "../../gateway/keys/local-key.ts";
import { Child, ChildFailed, startProcess } from "../local/child.ts";
import { runMain } from "../runtime/process/run-main.ts";

/*
 * The last step of the gateway's image: a gateway warms up and ends, so that what V8 has compiled of it lies in a folder
 * for those that run from the image.
 */

const GATEWAY = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "gateway", "main.js");
/** The time for a whole warm-up on a machine that is slow and builds other things, in milliseconds. */
const WARM_UP_MS = 60_000;

/** Writes what a gateway needs to start, and no more, below `folder`. Resolves to the path of its configuration. */
async function writeConfig(folder: string): Promise<string> {
  const keyFile = join(folder, "keys.json");
  await issueLocalKey({ file: keyFile, existing: undefined, nowMs: Date.now() }, new AbortController().signal);
  const file = join(folder, "gateway.yaml");
  const config = {
    listen: { port: 0 },
    admin: { port: 0 },
    keys: { file: keyFile },
    // Nobody is there: a warm-up asks a node of its own.
    clusters: CATALOG.map(({ id }) => ({ model: id, endpoints: [{ address: "127.0.0.1:1" }] })),
    warmUpMs: WARM_UP_MS,
    drainGraceMs: 0,
  };
  await writeFile(file, stringify(config, { aliasDuplicateObjects: false }));
  return file;
}

async function fill(compiled: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "svc-fill-"));
  try {
    const config = await writeConfig(folder);
    const gateway = new Child("gateway", startProcess(GATEWAY, ["--config", config], compiled));
    await gateway.ready;
    gateway.signal("SIGTERM");
    await gateway.ended;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const command = new Command("fill-compile-cache")
  .description("keep what V8 compiles of the gateway, for the same Node and user; nothing is kept before Node 22.10")
  .argument("<folder>", "where to keep it; made where it is missing")
  .exitOverride();

process.exitCode = await runMain({
  name: "fill-compile-cache",
  exitCodeOf: (error) => (error instanceof ChildFailed ? error.exitCode : undefined),
  run: async () => {
    command.parse();
    await fill(command.args[0] ?? "");
    return 0;
  },
});
