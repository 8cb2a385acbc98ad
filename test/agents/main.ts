import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AGENTS } from "../../deploy/local/launch/agents.ts";
import { projectFolder } from "../../deploy/runtime/files/project-folder.ts";
import { CELLS, type Outcome, Stands } from "./cells.ts";
import { Installed } from "./installed.ts";
import { figuresOf, TRIED_PAGE, type Tried, triedPage } from "./page.ts";

/*
 * The lane of agents: `test/agents/run [--write] [agent …] [cell …]`. Each agent does the task of task.ts against
 * `npm start`, with the settings of the table that the page is generated from, in a home folder of its own. Prints the
 * outcomes, keeps them in a file beside the agents, and with --write makes the page out of it.
 */

const folder = process.env.SVC_TEST_AGENTS ?? "";
const installed = new Installed(folder);
const [, , ...wanted] = process.argv;
const words = wanted.filter((word) => !word.startsWith("--"));
const cells = CELLS.filter(({ name }) => words.includes(name));
const names = words.filter((word) => !cells.some(({ name }) => name === word));
const chosen = AGENTS.filter(
  ({ name, program }) => names.length === 0 || names.includes(name) || names.includes(program),
);

if (wanted.includes("--packages")) {
  for (const agent of chosen) process.stdout.write(`${agent.registry} ${agent.package}\n`);
  process.exit(0);
}

const kept = join(folder, "outcomes.json");
const tried: Record<string, Tried> = existsSync(kept) ? JSON.parse(readFileSync(kept, "utf8")) : {};
const stands = new Stands();
let failed = 0;
try {
  for (const agent of chosen) {
    const version = installed.versionOf(agent);
    process.stdout.write(`\n## ${agent.name} ${version}\n`);
    const known = tried[agent.name];
    const outcomes: Record<string, Outcome> = known?.version === version ? { ...known.outcomes } : {};
    for (const { name, suits, run } of cells.length > 0 ? cells : CELLS) {
      if (suits && !suits(agent)) continue;
      const outcome = await run(stands, installed, agent).catch(
        (error: unknown): Outcome => ({ pass: false, requests: 0, refused: {}, reads: String(error) }),
      );
      if (!outcome.pass) failed += 1;
      process.stdout.write(`| ${name} | ${outcome.pass ? "pass" : "FAILS"}: ${figuresOf(outcome)} |\n`);
      outcomes[name] = outcome;
    }
    tried[agent.name] = { version, outcomes };
    writeFileSync(kept, JSON.stringify(tried, null, 1));
  }
} finally {
  await stands.end();
}
if (wanted.includes("--write")) writeFileSync(join(projectFolder(), TRIED_PAGE), triedPage(tried));
process.stdout.write(`\n${failed} cells fail\n`);
process.exit(failed > 0 ? 1 : 0);
