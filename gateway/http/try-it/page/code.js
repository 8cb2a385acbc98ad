/* A request as code to copy, with the key in the environment: complete programs and the settings of agents. */

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function curl(origin, { path, text, stream }) {
  return [
    `curl ${stream ? "-N " : ""}${quoted(origin + path)} \\`,
    `  -H "authorization: Bearer $KEY" \\`,
    `  -H 'content-type: application/json' \\`,
    `  -d ${quoted(text)}`,
  ].join("\n");
}

/** The official packages of a format: their names in TypeScript and Python, the class, the end of the base address, the call. */
const OPENAI = ["openai", "openai", "OpenAI", "/v1"];
const SDKS = {
  chat: [...OPENAI, "chat.completions.create"],
  messages: ["@anthropic-ai/sdk", "anthropic", "Anthropic", "", "messages.create"],
  responses: [...OPENAI, "responses.create"],
};

/** Returns the fields of a body that the package of its format knows, and those that it passes on without. */
function fieldsOf({ format, text }) {
  const body = JSON.parse(text);
  if (format !== "messages") return [body, {}];
  const { temperature, top_p, ...known } = body;
  const others = Object.entries({ temperature, top_p }).filter(([, value]) => value !== undefined);
  return [known, Object.fromEntries(others)];
}

function typescript(origin, request) {
  const [name, , client, base, call] = SDKS[request.format];
  const [known, others] = fieldsOf(request);
  const rest = Object.keys(others).length > 0 ? `,\n  ...${JSON.stringify(others)}\n}` : "\n}";
  const print = (what) => `console.log(JSON.stringify(${what}, undefined, 2));`;
  return `import ${client} from "${name}";

const client = new ${client}({ baseURL: "${origin}${base}", apiKey: process.env.KEY });
const answer = await client.${call}(${JSON.stringify(known, undefined, 2).slice(0, -2)}${rest});
${request.stream ? `for await (const event of answer) ${print("event")}` : print("answer")}`;
}

const WORDS = new Map([
  [null, "None"],
  [true, "True"],
  [false, "False"],
]);

/** Returns a JSON value in Python, whose strings and numbers are written alike. */
function literal(value, indent = "") {
  if (value === null || typeof value !== "object") return WORDS.get(value) ?? JSON.stringify(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const inner = `${indent}    `;
  const items = Object.entries(value).map(
    ([name, item]) => `${inner}${open === "{" ? `${JSON.stringify(name)}: ` : ""}${literal(item, inner)},\n`,
  );
  return items.length === 0 ? open + close : `${open}\n${items.join("")}${indent}${close}`;
}

function python(origin, request) {
  const [, name, client, base, call] = SDKS[request.format];
  const [known, others] = fieldsOf(request);
  const all = Object.keys(others).length > 0 ? { ...known, extra_body: others } : known;
  const fields = Object.entries(all).map(([key, value]) => `    ${key}=${literal(value, "    ")},\n`);
  return `import os

from ${name} import ${client}

client = ${client}(base_url="${origin}${base}", api_key=os.environ["KEY"])
answer = client.${call}(
${fields.join("")})
${request.stream ? "for event in answer:\n    print(event.to_json())" : "print(answer.to_json())"}`;
}

/** The agent that is shown for a format. */
const AGENT = { chat: "opencode", messages: "claude", responses: "codex" };

function agents(origin, { format, model }) {
  const [name, base] = format === "messages" ? ["ANTHROPIC", ""] : ["OPENAI", "/v1"];
  return `# One agent, with settings of its own:
SVC_API_KEY="$KEY" svc launch ${AGENT[format]} --url ${quoted(origin)} --model ${quoted(model)}

# Others read:
export ${name}_BASE_URL=${quoted(origin + base)} ${name}_API_KEY="$KEY" ${name}_MODEL=${quoted(model)}

# The settings of each agent: gateway/docs/agents.md`;
}

/** A request `{ format, path, model, text, stream }` to `origin` as text, by the names of the views. */
export const CODE = { curl, Python: python, TypeScript: typescript, Agents: agents };
