import { AGENTS } from "../../deploy/local/launch/agents.ts";
import { measuredAt } from "../support/measured-at.ts";
import type { Outcome } from "./cells.ts";

export const TRIED_PAGE = "gateway/docs/agents-tried.md";

/** What became of an agent, by the names of the cells. */
export type Tried = { readonly version: string; readonly outcomes: Readonly<Record<string, Outcome>> };

type AllTried = Readonly<Record<string, Tried>>;

/** Returns an outcome in words. */
export function figuresOf({ requests, refused, cached, prompt, compactions, reads }: Outcome): string {
  const kinds = Object.entries(refused).map(([kind, times]) => `${times} refused (${kind})`);
  const figures = [
    `${requests} requests`,
    ...kinds,
    ...(cached === undefined ? [] : [`${cached} % cached`]),
    ...(prompt === undefined ? [] : [`first prompt ${prompt.first} tokens, all ${prompt.all}`]),
    ...(compactions ? [`${compactions} compactions`] : []),
    ...(reads === undefined ? [] : [reads]),
  ];
  return figures.join(", ");
}

/** The cell in which a smaller prompt is a compaction; in others it is a side request. */
const SHORTENED = "window 32,768";

const TASKS: readonly (readonly [cell: string, heading: string])[] = [
  ["six turns", "six turns, least cached share"],
  ["node killed", "node killed in an answer"],
  ["connection cut", "connection cut"],
  ["outage", "no node for 5 s"],
  ["launch", "by `svc launch`"],
  [SHORTENED, "window of 32,768, 30 files"],
];

const REFUSALS: readonly (readonly [cell: string, heading: string])[] = [
  ["unknown model", "unknown model"],
  ["hosted tool", "hosted tool `web_search`"],
  ["wrong effort", "effort that is none"],
  ["window not set", "window, set to 262,144 for 32,768"],
];

const FIRST: readonly (readonly [cell: string, heading: string])[] = [
  ["first try", "as started"],
  ["first try, --agents", "with `--agents`"],
];

/** Returns the page of all outcomes; an agent that was not tried has no row. */
export function triedPage(tried: AllTried): string {
  const shown = AGENTS.filter(({ name }) => tried[name] !== undefined);
  const rows = (
    cells: readonly (readonly [string, string])[],
    cell: (outcome: Outcome | undefined, key: string) => string,
  ) =>
    shown.flatMap(({ name }) => {
      const outcomes = cells.map(([key]) => tried[name]?.outcomes[key]);
      if (outcomes.every((outcome) => outcome === undefined)) return [];
      const texts = outcomes.map((outcome, index) => cell(outcome, cells[index]?.[0] ?? ""));
      return [`| ${[name, ...texts].join(" | ")} |`];
    });
  const versions = shown.map(({ name }) => {
    const { version, outcomes } = tried[name] as Tried;
    return `| ${name} | ${version} | ${tokens(outcomes["six turns"]?.prompt?.first)} |`;
  });
  return `# Agents, tried

\`test/agents/run --write\` makes this page: what became of each agent with the settings of [the agents' page](agents.md), in front of two engine nodes that play
the task.
${measuredAt()}

## The task

A task of six turns, and one of 30 files of 1,100 tokens in a small window. Cells have the requests of generation; all files were right where none says that it fails.

${head(TASKS)}
${rows(TASKS, taskCell).join("\n")}

## What our 400s cost

Requests until the agent ends, and what its user reads: our message, with the name of its own setting where it has one and its headers show which agent it is, or
the end of what it prints. A proxy puts the tool and the effort in: agents send neither with the settings of the page.

${head(REFUSALS)}
${rows(REFUSALS, refusalCell).join("\n")}

## With an address and a key only

${head(FIRST)}
${rows(FIRST, refusalCell).join("\n")}

${ownInstructions(tried)}
## Versions, and tokens of the first prompt

| agent | version | tokens |
|---|---|---|
${versions.join("\n")}
`;
}

function tokens(number: number | undefined): string {
  return number?.toLocaleString("en") ?? "";
}

function head(cells: readonly (readonly [string, string])[]): string {
  const headings = ["agent", ...cells.map(([, heading]) => heading)];
  return `| ${headings.join(" | ")} |\n${"|---".repeat(headings.length)}|`;
}

const count = (refused: Outcome["refused"]) => Object.values(refused).reduce((sum, times) => sum + times, 0);

function taskCell(outcome: Outcome | undefined, key: string): string {
  if (outcome === undefined) return "";
  const { pass, requests, refused, cached, compactions = 0, reads = "" } = outcome;
  const plural = compactions === 1 ? "compaction" : "compactions";
  const parts = [
    `${requests}`,
    ...(count(refused) > 0 ? [`${count(refused)} refused`] : []),
    ...(key === "six turns" ? [`${cached} %`] : []),
    ...(key === SHORTENED && compactions > 0 ? [`${compactions} ${plural}`] : []),
  ];
  return pass ? parts.join(", ") : `fails: ${parts.join(", ")}; ${quoted(reads)}`;
}

function refusalCell(outcome: Outcome | undefined): string {
  if (outcome === undefined) return "";
  const { pass, requests, refused, reads } = outcome;
  const none = count(refused) === 0;
  if (reads === undefined)
    return none ? `done, ${requests} requests` : `done, ${count(refused)} of ${requests} refused`;
  return `${pass ? "" : "fails: "}${none ? requests : count(refused)}: ${quoted(reads)}`;
}

/** Returns a text of an agent for a cell of a table; the hosts that it tries to reach say nothing about it. */
function quoted(text: string): string {
  return text
    .replaceAll(/\b[\w-]+(?:\.[\w-]+)+\.(?:com|io|net|org)\b/g, "a host")
    .replaceAll(/[|<>`*_]+/g, " ")
    .replaceAll(/\s+/g, " ")
    .trim();
}

function ownInstructions(tried: AllTried): string {
  return AGENTS.flatMap(({ name }) => {
    const { "six turns": ours, "own instructions": own } = tried[name]?.outcomes ?? {};
    if (!ours?.prompt || !own?.prompt) return [];
    const words = ({ requests, refused, prompt }: Outcome) =>
      `${tokens(prompt?.first)} tokens in the first prompt, ${tokens(prompt?.all)} in ${requests} requests, ${count(refused)} refused`;
    return [`## Instructions of ${name}\n\nOur catalog: ${words(ours)}. Its vendor's: ${words(own)}.\n`];
  }).join("\n");
}
