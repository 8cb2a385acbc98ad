import { readFileSync } from "node:fs";
import { join } from "node:path";
import { AGENTS, type Agent, agentAliases, type ModelAccess, taskArgs } from "../local/launch/agents.ts";
import { projectFolder } from "../runtime/files/project-folder.ts";

/*
 * The settings in gateway/docs/agents.md: a part of a page that is written otherwise.
 */

export const AGENTS_PAGE = "gateway/docs/agents.md";

const PART = /(<!-- settings of agents: .*-->\n)[\s\S]*?(<!-- end of the settings -->)/;

const ACCESS: ModelAccess = {
  baseUrl: "http://127.0.0.1:8080",
  key: "$KEY",
  model: "svc-glm53",
  smallModel: "svc-qwen",
  contextTokens: 1_048_576,
};

const TASK = "Create a file named hello.txt";

/** Returns the page with the settings of the table. */
export function agentsPage(): string {
  const page = readFileSync(join(projectFolder(), AGENTS_PAGE), "utf8");
  return page.replace(
    PART,
    (_, begin: string, end: string) => `${begin}${AGENTS.map(section).join("")}${aliases()}\n${end}`,
  );
}

function section(agent: Agent): string {
  const { name, version, formats, note } = agent;
  const files = Object.entries(agent.files?.(ACCESS) ?? {}).map(([path, text]) => fileBlock(path, text));
  const parts = [...files, shellBlock(agent), ...(note === undefined ? [] : [note])];
  return `\n## ${name}\n\nVersion ${version}: ${formats}.\n\n${parts.join("\n\n")}\n`;
}

/** The names that agents send where none is set, as `aliases` of the gateway's configuration. */
function aliases(): string {
  const lines = Object.entries(agentAliases(ACCESS)).map(([name, model]) => `    ${name}: ${model}`);
  return `\n## Names that agents send where none is set\n
With a key and an address only, agents ask for a model of their vendor, in the versions above for these. \`--agents\` has the aliases; elsewhere they
belong to \`catalog\` of the gateway's configuration, which lists its \`models\`, too:\n
\`\`\`yaml
  aliases:\n${lines.join("\n")}\n\`\`\`
`;
}

function fileBlock(path: string, text: string): string {
  const folder = path.split("/").slice(0, -1).join("/");
  if (text.startsWith("/"))
    return `\`\`\`\nmkdir -p ~/${folder}\ncurl -s -H "Authorization: Bearer $KEY" "${ACCESS.baseUrl}${text}" | tee ~/${path}\n\`\`\``;
  const language = path.split(".").at(-1);
  return `\`~/${path}\`:\n\n\`\`\`${language}\n${text.trimEnd()}\n\`\`\``;
}

/** The width of a line of settings. */
const WIDTH = 130;

function shellBlock(agent: Agent): string {
  const lines: string[] = [];
  for (const [name, value] of Object.entries(agent.env?.(ACCESS) ?? {})) {
    const setting = `${name}=${value}`;
    const last = lines.at(-1);
    if (last !== undefined && last.length + setting.length < WIDTH) lines[lines.length - 1] = `${last} ${setting}`;
    else lines.push(`export ${setting}`);
  }
  const command = [agent.program, ...taskArgs(agent, TASK, ACCESS)]
    .map((word) => (word.includes(" ") ? `"${word}"` : word))
    .join(" ");
  return `<!-- not run: needs the agent -->\n\`\`\`\n${[...lines, command].join("\n")}\n\`\`\``;
}
