import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { type Command, Option } from "commander";
import { readPrivateFile } from "../../../deploy/runtime/files/private-file.ts";
import {
  changeFields,
  createKey,
  disableKey,
  enableKey,
  KeyAdminError,
  type MintedKey,
  revokeKey,
  rotateKey,
} from "../key-admin.ts";
import type { Pepper } from "../key-digest.ts";
import { type KeySetChange, parseKeySet } from "../key-file.ts";
import { KEY_ENVS, type KeyEnv } from "../key-format.ts";
import type { KeyLimits, KeyPriority, KeyQuota, KeyRecord, KeySet } from "../key-record.ts";
import { KeyStoreError } from "../key-store.ts";
import type { CliContext } from "./command-context.ts";
import {
  addLimitOptions,
  type LimitOptions,
  limitsOf,
  parseClear,
  parseLabel,
  parseLifetimeMs,
  parseModels,
  parseNetworks,
  parseOverlapMs,
  parseWeight,
} from "./options.ts";

type CreateOptions = LimitOptions & {
  readonly name: string;
  readonly models: readonly string[] | "all";
  readonly allowIps: readonly string[] | "any";
  readonly owner?: string;
  readonly env: KeyEnv;
  readonly priority: KeyPriority;
  readonly weight: number;
  readonly expires?: number;
  readonly quiet: boolean;
};

type SetLimitsOptions = LimitOptions & { readonly clear?: ReadonlySet<string> | "all" };

const MODELS_HELP = "catalog ids with commas between, those of a gateway's own catalog behind a plus, or all";

const NETWORKS_HELP = "addresses and networks that the key may be used from, with commas between, or any";

const QUIET = ["--quiet", "print the key alone", false] as const;

export function addChangeCommands(program: Command, context: CliContext): void {
  const create = program
    .command("create")
    .description("make a key and print it, once")
    .requiredOption("--name <name>", "what the key is for", parseLabel)
    .requiredOption("--models <list>", MODELS_HELP, parseModels)
    .option("--owner <owner>", "keys of one owner are one tenant and share cached prefixes", parseLabel)
    .option("--allow-ips <list>", NETWORKS_HELP, parseNetworks, "any")
    .option("--expires <duration>", "such as 90d; never by default", parseLifetimeMs)
    .option("--weight <n>", "share among waiting keys", parseWeight, 1)
    .option(...QUIET)
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
    .option(...QUIET)
    .action((id: string, { overlap, quiet }: { overlap: number; quiet: boolean }) =>
      mint(context, { create: false, quiet }, (set, pepper, nowMs) =>
        rotateKey(set, id, overlap, { pepper, nowMs, random: randomBytes }),
      ),
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

  addRightsCommands(program, context);
  addStatusCommands(program, context);
  program
    .command("import <path>")
    .description("add the keys that export wrote; the pepper they were made with has to lie beside the key file")
    .action((path: string) => importCommand(context, path));
  program
    .command("restore [path]")
    .description(
      "put keys in force that gateways refuse otherwise: those of an older key file or of an export, or without a path those of the store as it stands; those made since are gone",
    )
    .option("--unverified", "all records of the store as they stand, signed or not", false)
    .action((path: string | undefined, { unverified }: { unverified: boolean }) =>
      restoreCommand(context, path, unverified),
    );
}

function addRightsCommands(program: Command, context: CliContext): void {
  program
    .command("set-models <id>")
    .description("say which models the key may use")
    .argument("<models>", MODELS_HELP, parseModels)
    .action((id: string, models: readonly string[] | "all") =>
      change(context, (set) =>
        changeFields(set, id, context.io.nowMs(), () => ({ models: models === "all" ? ["*"] : [...models] })),
      ),
    );

  program
    .command("set-ips <id>")
    .description("say from where the key may be used")
    .argument("<networks>", NETWORKS_HELP, parseNetworks)
    .action((id: string, networks: readonly string[] | "any") =>
      change(context, (set) =>
        changeFields(set, id, context.io.nowMs(), () => ({
          allowIps: networks === "any" ? undefined : [...networks],
        })),
      ),
    );
}

function addStatusCommands(program: Command, context: CliContext): void {
  const commands = [
    ["revoke", "end the key for good", revokeKey],
    ["disable", "end the key until it is enabled", disableKey],
  ] as const;
  for (const [name, description, by] of commands)
    program
      .command(`${name} <id>`)
      .description(description)
      .option("--kill", "also end the answers that run for the key", false)
      .action((id: string, { kill }: { kill: boolean }) =>
        change(context, (set) => by(set, id, context.io.nowMs(), kill)),
      );
  program
    .command("enable <id>")
    .description("undo disable")
    .action((id: string) => change(context, (set) => enableKey(set, id, context.io.nowMs())));
}

function createCommand(context: CliContext, options: CreateOptions): Promise<void> {
  const { name, owner, env, models, allowIps, priority, weight, expires, quiet } = options;
  return mint(context, { create: true, quiet }, (set, pepper, nowMs) => {
    const expiresAtMs = expires === undefined ? null : nowMs + expires;
    const who = { name, owner: owner ?? null, env, models, allowIps, priority, weight };
    const request = { ...who, ...limitsOf(options), expiresAtMs };
    return createKey(set, request, { pepper, nowMs, random: randomBytes });
  });
}

type Mint = (set: KeySet, pepper: Pepper, nowMs: number) => KeySetChange<MintedKey>;

/** Makes a secret and prints it; with `quiet` only the key. With `create` a missing store is created. */
async function mint(context: CliContext, how: { create: boolean; quiet: boolean }, make: Mint): Promise<void> {
  const nowMs = context.io.nowMs();
  const minted = await context.update(how.create, (set, pepper) => make(set, pepper, nowMs));
  if (how.quiet) context.io.out(`${minted.key}\n`);
  else context.printMinted(minted);
}

async function change(context: CliContext, by: (set: KeySet) => KeySetChange<KeyRecord>): Promise<void> {
  context.printRecord(await context.update(false, by));
}

async function importCommand(context: CliContext, path: string): Promise<void> {
  const bytes = await readPrivateFile(path);
  if (bytes === undefined) throw new KeyAdminError("not_found", `there is no file ${path}`);
  const from = parseKeySet(path, bytes);
  const { pepperFile: pepper } = await context.vault();
  // A new pepper would fit none of these keys.
  if ((await readPrivateFile(pepper)) === undefined)
    throw new KeyStoreError("pepper_missing", `${pepper} is missing; copy the one that the keys were made with`);
  const done = await context.update(true, (set, used) => importKeys(set, from, used));
  context.print(done, () => `${done.added} keys added, ${done.present} were here already\n`);
}

async function restoreCommand(context: CliContext, path: string | undefined, unverified: boolean): Promise<void> {
  const { keys, revision } = await (await context.vault()).restore(path, unverified);
  context.print(
    { keys: keys.length, revision },
    () => `${keys.length} keys are in force again, as revision ${revision}\n`,
  );
}

/** The names in `clear` are removed first, then the new limits are set; others are unchanged. */
export type LimitChange = {
  readonly limits: KeyLimits;
  readonly quota: KeyQuota;
  /** Names of limits and quotas to remove, or catalog ids whose own limits are removed. */
  readonly clear: ReadonlySet<string> | "all";
};

/** Changes the limits of a key. Throws KeyAdminError: `not_found`, or `conflict` for a revoked key. */
export function setLimits(set: KeySet, id: string, change: LimitChange, nowMs: number): KeySetChange<KeyRecord> {
  return changeFields(set, id, nowMs, ({ limits, quota }) => {
    const { perModel: newPerModel, ...newLimits } = change.limits;
    const { perModel: oldPerModel = {}, ...kept } = without(limits, change.clear);
    const perModel = { ...without(oldPerModel, change.clear), ...newPerModel };
    return {
      limits: { ...kept, ...given(newLimits), ...(Object.keys(perModel).length > 0 && { perModel }) },
      quota: { ...without(quota, change.clear), ...given(change.quota) },
    };
  });
}

function without<T extends object>(values: T, names: ReadonlySet<string> | "all"): T {
  return pick(values, (name) => names !== "all" && !names.has(name));
}

function given<T extends object>(values: T): T {
  return pick(values, (_name, value) => value !== undefined);
}

function pick<T extends object>(values: T, wanted: (name: string, value: unknown) => boolean): T {
  return Object.fromEntries(Object.entries(values).filter(([name, value]) => wanted(name, value))) as T;
}

export type Imported = { readonly added: number; readonly present: number };

/** Adds all keys of an export, or none: throws if one was made with another pepper, or is present and differs. */
export function importKeys(set: KeySet, from: KeySet, pepper: Pepper): KeySetChange<Imported> {
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
