import { randomBytes } from "node:crypto";
import { type Command, Option } from "commander";
import {
  createKey,
  disableKey,
  enableKey,
  KeyAdminError,
  type MintedKey,
  revokeKey,
  rotateKey,
  setModels,
} from "../key-admin.ts";
import type { Pepper } from "../key-digest.ts";
import { type KeySetChange, parseKeySet, pepperFileOf, updateKeyFile } from "../key-file.ts";
import { KEY_ENVS, type KeyEnv } from "../key-format.ts";
import type { KeyPriority, KeyRecord, KeySet } from "../key-record.ts";
import { KeyStoreError } from "../key-store-error.ts";
import { readPrivateFile } from "../private-file.ts";
import type { CliContext } from "./command-context.ts";
import { importKeys } from "./key-import.ts";
import { setLimits } from "./key-limit-change.ts";
import { addLimitOptions, type LimitOptions, limitsOf, parseClear } from "./limit-options.ts";
import { parseLabel, parseLifetimeMs, parseModels, parseOverlapMs, parseWeight } from "./options.ts";

type CreateOptions = LimitOptions & {
  readonly name: string;
  readonly models: readonly string[] | "all";
  readonly owner?: string;
  readonly env: KeyEnv;
  readonly priority: KeyPriority;
  readonly weight: number;
  readonly expires?: number;
};

type SetLimitsOptions = LimitOptions & { readonly clear?: ReadonlySet<string> | "all" };

/** The commands that change keys. */
export function addChangeCommands(program: Command, context: CliContext): void {
  const create = program
    .command("create")
    .description("make a key and print it, once")
    .requiredOption("--name <name>", "what the key is for", parseLabel)
    .requiredOption("--models <list>", "catalog ids with commas between, or all", parseModels)
    .option("--owner <owner>", "keys of one owner are one tenant and share cached prefixes", parseLabel)
    .option("--expires <duration>", "such as 90d; never by default", parseLifetimeMs)
    .option("--weight <n>", "share among waiting keys", parseWeight, 1)
    .addOption(
      new Option("--priority <class>", "while requests wait").choices(["HIGH", "DEFAULT", "LOW"]).default("DEFAULT"),
    )
    .addOption(new Option("--env <env>", "which gateways take the key").choices(KEY_ENVS).default("live"));
  addLimitOptions(create).action((options: CreateOptions) => createCommand(context, options));

  program
    .command("rotate <id>")
    .description("give the key a new secret and print it, once")
    .addOption(
      new Option("--overlap <duration>", "how long the old secret works on, 0 for not at all")
        .argParser(parseOverlapMs)
        .default(24 * 3_600_000, "24h"),
    )
    .action((id: string, { overlap }: { overlap: number }) =>
      mint(context, false, (set, pepper, nowMs) => rotateKey(set, id, overlap, { pepper, nowMs, random: randomBytes })),
    );

  const setLimitsCommand = program
    .command("set-limits <id>")
    .description("change the limits that are named; the others stay")
    .option(
      "--clear <names>",
      "limits to take away, with commas between: rpm, per-model, a model id, or all",
      parseClear,
    );
  addLimitOptions(setLimitsCommand).action((id: string, { clear = new Set(), ...options }: SetLimitsOptions) => {
    if (Object.keys(options).length === 0 && clear !== "all" && clear.size === 0)
      setLimitsCommand.error("error: no limit is named", { exitCode: 1 });
    return change(context, (set) => setLimits(set, id, { ...limitsOf(options), clear }, context.io.nowMs()));
  });

  program
    .command("set-models <id>")
    .description("say which models the key may use")
    .argument("<models>", "catalog ids with commas between, or all", parseModels)
    .action((id: string, models: readonly string[] | "all") =>
      change(context, (set) => setModels(set, id, models, context.io.nowMs())),
    );

  const statusCommands = [
    ["revoke", "end the key for good", revokeKey],
    ["disable", "end the key until it is enabled", disableKey],
    ["enable", "undo disable", enableKey],
  ] as const;
  for (const [name, description, by] of statusCommands)
    program
      .command(`${name} <id>`)
      .description(description)
      .action((id: string) => change(context, (set) => by(set, id, context.io.nowMs())));

  program
    .command("import <path>")
    .description("add the keys that export wrote; the pepper they were made with has to lie beside the key file")
    .action((path: string) => importCommand(context, path));
}

function createCommand(context: CliContext, options: CreateOptions): Promise<void> {
  const { name, owner, env, models, priority, weight, expires } = options;
  return mint(context, true, (set, pepper, nowMs) => {
    const expiresAtMs = expires === undefined ? null : nowMs + expires;
    const request = { name, owner: owner ?? null, env, models, priority, weight, ...limitsOf(options), expiresAtMs };
    return createKey(set, request, { pepper, nowMs, random: randomBytes });
  });
}

type Mint = (set: KeySet, pepper: Pepper, nowMs: number) => KeySetChange<MintedKey>;

/** `create`: a store that is missing is made. */
async function mint(context: CliContext, create: boolean, make: Mint): Promise<void> {
  const { file } = context.options;
  const nowMs = context.io.nowMs();
  context.printMinted(
    await updateKeyFile(file, create, (set, pepper) => make(set, pepper, nowMs), context.lockSignal()),
  );
}

async function change(context: CliContext, by: (set: KeySet) => KeySetChange<KeyRecord>): Promise<void> {
  context.printRecord(await updateKeyFile(context.options.file, false, by, context.lockSignal()));
}

async function importCommand(context: CliContext, path: string): Promise<void> {
  const { file } = context.options;
  const bytes = await readPrivateFile(path);
  if (bytes === undefined) throw new KeyAdminError("not_found", `there is no file ${path}`);
  const from = parseKeySet(path, bytes);
  const pepper = pepperFileOf(file);
  // A new one would be made, which fits none of these keys.
  if ((await readPrivateFile(pepper)) === undefined)
    throw new KeyStoreError("pepper_missing", `${pepper} is missing; copy the one that the keys were made with`);
  const done = await updateKeyFile(file, true, (set, used) => importKeys(set, from, used), context.lockSignal());
  context.print(done, () => `${done.added} keys added, ${done.present} were here already\n`);
}
