import { isDeepStrictEqual } from "node:util";
import { type Command, Option } from "commander";
import { readPrivateFile } from "../../../deploy/runtime/files/private-file.ts";
import {
  changeFields,
  createKey,
  KeyAdminError,
  type KeyRequest,
  type MintedKey,
  rotateKey,
  setStatus,
} from "../key-admin.ts";
import type { Pepper } from "../key-digest.ts";
import { type KeySetChange, parseKeySet } from "../key-file.ts";
import type { KeyRecord, KeySet } from "../key-record.ts";
import { missingPepper } from "../key-vault.ts";
import type { CliContext } from "./command-context.ts";
import {
  addLimitOptions,
  type Cleared,
  type LimitOptions,
  parseClear,
  parseDurationMs,
  parseLabel,
  parseLifetimeMs,
  parseModels,
  parseNetworks,
  parseRevision,
  parseWeight,
  pick,
  splitLimits,
} from "./options.ts";

type CreateOptions = LimitOptions &
  Omit<KeyRequest, "limits" | "quota" | "allowIps" | "expiresAt"> & {
    readonly allowIps?: string[] | null;
    readonly expires?: number;
    readonly quiet: boolean;
  };

const MODELS_HELP = "catalog ids with commas between, those of a gateway's own catalog behind a plus, or all";

const NETWORKS_HELP = "addresses and networks that the key may be used from, with commas between, or any";

const QUIET = ["--quiet", "print the key alone", false] as const;

export function addChangeCommands(program: Command, context: CliContext): void {
  addSecretCommands(program, context);
  addLimitsCommand(program, context);
  addRightsCommands(program, context);
  addStatusCommands(program, context);
  addStoreCommands(program, context);
}

function addSecretCommands(program: Command, context: CliContext): void {
  const create = program
    .command("create")
    .description("make a key and print it, once")
    .requiredOption("--name <name>", "what the key is for", parseLabel)
    .requiredOption("--models <list>", MODELS_HELP, parseModels)
    .option("--owner <owner>", "keys of one owner are one tenant and share cached prefixes", parseLabel)
    .option("--allow-ips <list>", NETWORKS_HELP, parseNetworks)
    .option("--expires <duration>", "such as 90d; never by default", parseLifetimeMs)
    .option(
      "--load-tests",
      "for load generators and probers: requests may keep answers from ending (ignore_eos, min_tokens) and lose their engine",
    )
    .option("--weight <n>", "share among waiting keys", parseWeight, 1)
    .option(...QUIET)
    .addOption(
      new Option("--priority <class>", "while requests wait").choices(["HIGH", "DEFAULT", "LOW"]).default("DEFAULT"),
    );
  addLimitOptions(create).action(({ allowIps, expires, quiet, ...options }: CreateOptions) =>
    mint(context, quiet, undefined, (set, pepper, nowMs) => {
      const expiresAt = expires === undefined ? null : new Date(nowMs + expires).toISOString();
      const request = { ...splitLimits(options), allowIps: allowIps ?? undefined, expiresAt };
      return createKey(set, request, pepper, nowMs);
    }),
  );

  program
    .command("rotate <id>")
    .description("give the key a new secret and print it, once")
    .addOption(
      new Option("--overlap <duration>", "how long the old secret works on, 0 for not at all")
        .argParser(parseDurationMs)
        .default(24 * 3_600_000, "24h"),
    )
    .option(...QUIET)
    .action((id: string, { overlap, quiet }: { overlap: number; quiet: boolean }) =>
      mint(context, quiet, id, (set, pepper, nowMs) => rotateKey(set, id, overlap, pepper, nowMs)),
    );
}

function addLimitsCommand(program: Command, context: CliContext): void {
  const setLimitsCommand = program
    .command("set-limits <id>")
    .description("change the limits that are named; the others stay")
    .option(
      "--clear <names>",
      "limits to take away, with commas between: rpm, per-model, a model id, or all",
      parseClear,
    );
  addLimitOptions(setLimitsCommand).action((id: string, options: LimitOptions & { readonly clear?: Cleared }) => {
    if (Object.keys(options).length === 0) setLimitsCommand.error("error: no limit is named", { exitCode: 1 });
    const { clear, ...limits } = options;
    return change(context, [id], (set) => setLimits(set, id, limits, clear, context.io.nowMs()));
  });
}

function addStoreCommands(program: Command, context: CliContext): void {
  program
    .command("import <path>")
    .description("add the keys that export wrote; the pepper they were made with has to lie beside the key file")
    .action((path: string) => importCommand(context, path));
  program
    .command("restore [path]")
    .description(
      "put keys in force that gateways refuse otherwise: those of an older key file or of an export, or without a path those of the store as it stands; those made since are gone",
    )
    .option("--above <revision>", "the newest revision that gateways have used, as they name it", parseRevision, 0)
    .action((path: string | undefined, { above }: { above: number }) => restoreCommand(context, path, above));
}

function addRightsCommands(program: Command, context: CliContext): void {
  program
    .command("set-models <id>")
    .description("say which models the key may use")
    .argument("<models>", MODELS_HELP, parseModels)
    .action((id: string, models: string[]) => changeTo(context, id, { models }));

  program
    .command("set-ips <id>")
    .description("say from where the key may be used")
    .argument("<networks>", NETWORKS_HELP, parseNetworks)
    .action((id: string, networks: string[] | null) => changeTo(context, id, { allowIps: networks ?? undefined }));
}

function addStatusCommands(program: Command, context: CliContext): void {
  const commands = [
    ["revoke", "end keys for good, all of them or none", "revoked"],
    ["disable", "end keys until they are enabled, all of them or none", "disabled"],
    ["enable", "undo disable", "active"],
  ] as const;
  for (const [name, description, status] of commands) {
    const command = program.command(`${name} <id...>`).description(description);
    if (status !== "active") command.option("--kill", "also end the answers that run for the keys", false);
    command.action((ids: string[], { kill }: { kill?: boolean }) =>
      change(context, ids, (set) => setStatus(set, ids, status, context.io.nowMs(), kill)),
    );
  }
}

type Mint = (set: KeySet, pepper: Pepper, nowMs: number) => KeySetChange<MintedKey>;

/** Makes a secret of the key, or of a new one, for which a missing store is created; with `quiet` prints it alone. */
async function mint(context: CliContext, quiet: boolean, id: string | undefined, make: Mint): Promise<void> {
  const nowMs = context.io.nowMs();
  const ids = id === undefined ? [] : [id];
  const minted = await (await context.vault()).update(id === undefined, ids, (set, pepper) => make(set, pepper, nowMs));
  if (quiet) context.io.out(`${minted.key}\n`);
  else context.printMinted(minted);
}

async function change(
  context: CliContext,
  ids: readonly string[],
  by: (set: KeySet) => KeySetChange<KeyRecord | readonly KeyRecord[]>,
): Promise<void> {
  context.printRecords([await (await context.vault()).update(false, ids, by)].flat());
}

function changeTo(context: CliContext, id: string, fields: Partial<KeyRecord>): Promise<void> {
  return change(context, [id], (set) => changeFields(set, id, context.io.nowMs(), () => fields));
}

async function importCommand(context: CliContext, path: string): Promise<void> {
  const bytes = await readPrivateFile(path);
  if (bytes === undefined) throw new KeyAdminError("not_found", `there is no file ${path}`);
  const from = parseKeySet(path, bytes);
  const { pepperFile: pepper } = await context.vault();
  // A new pepper would fit none of these keys.
  if ((await readPrivateFile(pepper)) === undefined) throw missingPepper(pepper);
  const ids = from.keys.map(({ id }) => id);
  const done = await (await context.vault()).update(true, ids, (set, used) => importKeys(set, from, used));
  context.print(done, () => `${done.added} keys added, ${done.present} were here already\n`);
}

async function restoreCommand(context: CliContext, path: string | undefined, above: number): Promise<void> {
  const { keys, revision } = await (await context.vault()).restore(path, above);
  context.print(
    { keys: keys.length, revision },
    () => `${keys.length} keys are in force again, as revision ${revision}\n`,
  );
}

/** Removes the limits in `clear`, then sets those in `options`; others are unchanged. */
function setLimits(
  set: KeySet,
  id: string,
  options: LimitOptions,
  clear: Cleared | undefined,
  nowMs: number,
): KeySetChange<KeyRecord> {
  const without = <T extends object>(values: T): T => pick(values, (name) => clear !== "all" && !clear?.has(name));
  const given = splitLimits(options);
  return changeFields(set, id, nowMs, ({ limits, quota }) => {
    const { perModel: models = {}, ...kept } = without(limits);
    const perModel = { ...without(models), ...given.limits.perModel };
    return {
      limits: { ...kept, ...given.limits, perModel: Object.keys(perModel).length > 0 ? perModel : undefined },
      quota: { ...without(quota), ...given.quota },
    };
  });
}

/** Adds all keys of an export, or none: throws if one was made with another pepper, or is present and differs. */
function importKeys(
  set: KeySet,
  from: KeySet,
  pepper: Pepper,
): KeySetChange<{ readonly added: number; readonly present: number }> {
  const known = new Map(set.keys.map((record) => [record.id, record]));
  const added = from.keys.filter((record) => {
    if (record.secrets.some(({ pepperId }) => pepperId !== pepper.id))
      throw new KeyAdminError("conflict", `the key ${record.id} was made with another pepper`);
    const here = known.get(record.id);
    if (here !== undefined && !isDeepStrictEqual(here, record))
      throw new KeyAdminError("conflict", `the key ${record.id} is here already, and differs`);
    return here === undefined;
  });
  const value = { added: added.length, present: from.keys.length - added.length };
  return { set: added.length === 0 ? set : { ...set, keys: [...set.keys, ...added] }, value };
}
