import type { Command } from "commander";
import { writePrivateFile } from "../../../deploy/runtime/files/private-file.ts";
import { readAudit } from "../audit-log.ts";
import { findKey, summarize } from "../key-admin.ts";
import { readPepper } from "../key-file.ts";
import { idOfKey, MAX_KEY_LENGTH } from "../key-format.ts";
import { indexKeys } from "../key-index.ts";
import { KeyStoreError } from "../key-store.ts";
import { type CliContext, EXIT } from "./command-context.ts";
import { examine, examineAudit, type Finding } from "./doctor.ts";
import { readLine } from "./options.ts";
import { auditText, findingsText, listText } from "./text.ts";

export function addReadCommands(program: Command, context: CliContext): void {
  program
    .command("list")
    .description("all keys")
    .action(async () => {
      const nowMs = context.io.nowMs();
      const keys = (await context.read()).set.keys.map((record) => summarize(record, nowMs));
      context.print(keys, () => listText(keys));
    });

  program
    .command("show <id>")
    .description("one key")
    .action(async (id: string) => context.printRecords([findKey((await context.read([id])).set, id)]));

  program
    .command("verify")
    .description("check the key that standard input holds")
    .action(() => verify(context));

  program
    .command("export")
    .description("all records, with digests instead of keys, for import; as worthy of protection as the key file")
    .option("--out <path>", "a file of mode 0600 instead of standard output")
    .action(async ({ out }: { out?: string }) => {
      const text = `${JSON.stringify((await context.read()).set, null, 2)}\n`;
      if (out === undefined) context.io.out(text);
      else await writePrivateFile(out, text);
    });

  const audit = program
    .command("audit")
    .description("who changed what")
    .action(async () => {
      const vault = await context.vault();
      const text = await vault.readAudit();
      if (text === undefined) throw new KeyStoreError("missing", `there is no audit log at ${vault.auditName}`);
      const { entries, brokenAt } = readAudit(text, await readPepper(vault.pepperFile));
      context.print(entries, () => auditText(entries));
      if (brokenAt !== undefined) context.io.err(`from line ${brokenAt} on the log is not as it was written\n`);
    });
  audit
    .command("verify")
    .description("check that no line of the log was made up, altered or taken away")
    .action(async () => {
      const vault = await context.vault();
      const found = await vault.read();
      const errors = found.amiss.map(({ message }) => ({ level: "error", text: message }) as const);
      report(context, [await examineAudit(vault, found), ...errors]);
    });

  program
    .command("doctor")
    .description("look for what goes wrong with keys and their files: modes, locks, pepper, audit log, expired keys")
    .action(async () => report(context, await examine(await context.vault(), context.io.nowMs())));
}

async function verify(context: CliContext): Promise<void> {
  const presented = await readLine(context.io.stdin, 4 * MAX_KEY_LENGTH);
  const { set, pepper } = await context.read([idOfKey(presented) ?? []].flat());
  const found = indexKeys(set, pepper).look(presented, context.io.nowMs());
  if ("principal" in found) {
    const { keyId } = found.principal;
    context.print({ valid: true, id: keyId }, () => `valid ${keyId}\n`);
    return;
  }
  context.print({ valid: false, reason: found.refused }, () => `not valid: ${found.refused}\n`);
  context.exitCode = EXIT.notFound;
}

function report(context: CliContext, findings: readonly Finding[]): void {
  context.print(findings, () => findingsText(findings));
  if (findings.some(({ level }) => level === "error")) context.exitCode = EXIT.store;
}
