import { CATALOG } from "../../../gateway/catalog.ts";
import { code, table } from "../markdown.ts";

type ModelFacts = { readonly size: string; readonly good: string };

/** What the models of the catalog are like, by id. */
const FACTS: Readonly<Record<string, ModelFacts>> = {
  "svc-glm53": {
    size: "744B, sparse mixture of experts",
    good: "coding agents: take this one where nothing speaks for another",
  },
  "svc-kimik3": {
    size: "2.8T mixture of experts, about 50B active",
    good: "hard questions that need much reasoning, and images as input",
  },
  "svc-qwen": { size: "27B, dense", good: "answers that must come quickly, and small steps of an agent" },
  "svc-minimax": { size: "230B mixture of experts", good: "agents that work long on their own" },
  "svc-dsv4flash": { size: "not told", good: "fast code, reasoning and use of tools" },
};

/** Writes the table of the models of the catalog. Throws where one is not described. */
export function modelTable(): string {
  const rows = CATALOG.map(({ id, contextWindow }) => {
    const facts = FACTS[id];
    if (!facts) throw new Error(`no facts about the model ${id}`);
    return [code(id), windowOf(contextWindow), facts.size, facts.good];
  });
  return table(["model", "window in tokens", "size", "good for"], rows);
}

function windowOf(tokens: number): string {
  const short = tokens >= 2 ** 20 ? `${tokens / 2 ** 20}M` : `${tokens / 2 ** 10}K`;
  return `${short} (${tokens.toLocaleString("en-US")})`;
}
