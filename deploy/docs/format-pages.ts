import { CATALOG } from "../../gateway/catalog.ts";
import { CHAT_UNTAKEN } from "../../gateway/formats/chat/schema.ts";
import { MESSAGES_UNTAKEN } from "../../gateway/formats/messages/schema.ts";
import type { UntakenField } from "../../gateway/formats/request-body.ts";
import { RESPONSES_UNTAKEN } from "../../gateway/formats/responses/schema.ts";
import { OPERATIONS, openApiDocument } from "../../gateway/reference/openapi.ts";
import { ROUTES } from "../../gateway/routes.ts";
import { FieldTables, type Schemas } from "./field-tables.ts";
import { code, page, table } from "./markdown.ts";
import { overviewPage } from "./overview-page.ts";

type Operation = keyof typeof OPERATIONS;

/** The page of a format: its operations, and what its fields do not say. */
type FormatPage = {
  readonly title: string;
  readonly file: string;
  readonly operations: readonly Operation[];
  readonly intro: string;
  readonly stream: string;
  /** The fields that are refused by name or ignored. */
  readonly untaken: readonly UntakenField[];
};

const PAGES: readonly FormatPage[] = [
  {
    title: "API: chat completions (Format A)",
    file: "api-chat.md",
    operations: ["chat"],
    untaken: CHAT_UNTAKEN,
    intro: [
      "Fields that are not named here are ignored, but for those which the [last table](#fields-that-are-refused-or-ignored) lists as refused.",
    ].join("\n"),
    stream: [
      "Events have no name. They come in this order: the chunk with the role; chunks of reasoning, text and tool calls; the chunk with the",
      "finish reason; the usage, where it was asked for; `data: [DONE]`. A call is complete before the next one begins. The comment",
      "`: keep-alive` is a sign of life. A failure in mid-stream is one object with `error`, then `[DONE]`.",
    ].join("\n"),
  },
  {
    title: "API: messages (Format B)",
    file: "api-messages.md",
    operations: ["messages", "count_tokens"],
    untaken: MESSAGES_UNTAKEN,
    intro: [
      "Fields that are not named here are ignored, but for those which the [last table](#fields-that-are-refused-or-ignored) lists as refused. System text stands in `system`: a message with the role `system` is 400, unless",
      "an operator has `formats.messages.systemRole: merge`. Cache hints are never refused.",
    ].join("\n"),
    stream: [
      "Each event has the name that its `type` says. They come in this order: `message_start`; the blocks one after the other, each as",
      "`content_block_start`, deltas, `content_block_stop`; `message_delta`; `message_stop`. There is no `[DONE]`. A failure in mid-stream is the",
      "event `error`, and nothing comes behind it.",
    ].join("\n"),
  },
  {
    title: "API: responses",
    file: "api-responses.md",
    operations: ["responses", "compact", "input_tokens"],
    untaken: RESPONSES_UNTAKEN,
    intro: [
      "The endpoint is stateless: a request brings all items that it needs, function calls with their outputs among them. Other keys than these are 400 at the top level and in `text`, `reasoning`, `stream_options`, `prompt_cache_options` and `tool_choice`, unless they",
      "are null; inside items and tools they are ignored. Hosted tools and their items are 400, or left out where the operator has",
      "`formats.responses.unsupportedTools: skip`. Reasoning is in the reply only where `reasoning.summary` or `include` asks for it.",
      "An agent whose conversation has grown too long asks for a summary to go on with, by a last item `compaction_trigger` or at the endpoint for that; it is",
      "sealed, and nothing of it is stored.",
    ].join("\n"),
    stream: [
      "Each event has the name that its `type` says, and a `sequence_number`. `response.created` and `response.in_progress` come first; then the items",
      "one after the other, each from `response.output_item.added` to `response.output_item.done`; then one of `response.completed`,",
      "`response.incomplete` and `response.failed`. There is no `[DONE]`.",
    ].join("\n"),
  },
];

const MADE_FROM = "the schemas of `gateway/formats/`, and `gateway/reference/`";

export type ReferencePage = { readonly path: string; readonly text: string };

export function referencePages(): readonly ReferencePage[] {
  const { schemas } = openApiDocument(CATALOG.map(({ id }) => id)).components;
  const models = new FieldTables(schemas).objects(["ModelList"]);
  const shared = sharedLines(schemas);
  return [
    { path: "gateway/docs/api.md", text: overviewPage(models, shared) },
    ...PAGES.map((format) => ({
      path: `gateway/docs/${format.file}`,
      text: formatPage(format, new FieldTables(schemas, shared)),
    })),
  ];
}

/** Returns the lines of the fields that the requests of several formats have alike. */
function sharedLines(schemas: Schemas): readonly string[] {
  const lines = PAGES.flatMap(({ operations }) => {
    const requests = operations.flatMap((name) => OPERATIONS[name].request ?? []);
    return [...new Set(requests.flatMap((request) => new FieldTables(schemas).linesOf(idOf(request))))];
  });
  return [...new Set(lines.filter((line, index) => lines.indexOf(line) !== index))];
}

function formatPage({ title, operations, intro, stream, untaken }: FormatPage, tables: FieldTables): string {
  const requests = operations.flatMap((name) => OPERATIONS[name].request ?? []);
  const lines = requests.flatMap((request) => tables.linesOf(idOf(request)));
  const named = new Set(lines.map((line) => /`(.+?)`/.exec(line)?.[1] ?? ""));
  const parts = [
    `[The API as a whole](api.md) has keys, models, headers, limits, errors and [how to read this page](api.md#the-pages-of-the-formats).\n\n${intro}`,
    ...operations.flatMap((name) => operationParts(name, stream, tables)),
    ...untakenParts(untaken.filter(({ field }) => !named.has(field))),
  ];
  const linked = parts.map((part) =>
    part.replaceAll("*Structured output*", "[Structured output](api.md#structured-output)"),
  );
  return page(title, MADE_FROM, linked);
}

function untakenParts(fields: readonly UntakenField[]): readonly string[] {
  const rows = new Map<string, { readonly becomes: string; readonly why: string; readonly names: string[] }>();
  for (const { field, becomes, neutral = [], why } of fields) {
    const row = rows.get(becomes + why) ?? { becomes, why, names: [] };
    const values = neutral.map((value) => code(JSON.stringify(value))).join(", ");
    const name = values === "" ? code(field) : `${code(field)} (${values})`;
    // Of neighbours that are types of items of one list, the list is named once.
    const [list = ""] = /^.*\[\]<(?=[^<]*>$)/.exec(field) ?? [];
    const isOfSameList = list !== "" && row.names.some((other) => other.startsWith(`\`${list}`));
    row.names.push(isOfSameList ? code(field.slice(list.length - 1)) : name);
    rows.set(becomes + why, row);
  }
  return [
    "## Fields that are refused or ignored",
    table(
      ["fields", "become", "why"],
      [...rows.values()].map(({ names, becomes, why }) => [names.join(", "), becomes, why]),
    ),
  ];
}

const idOf = (schema: { meta(): { readonly id?: unknown } | undefined }) => String(schema.meta()?.id);

function operationParts(name: Operation, stream: string, tables: FieldTables): readonly string[] {
  const { request, reply, events, summary } = OPERATIONS[name];
  const route = ROUTES.find(({ operation }) => operation === name);
  return [
    `## \`${route?.methods[0]} ${route?.path}\``,
    summary,
    ...(request ? tables.request(idOf(request)) : []),
    ...(reply ? [`Reply: \`${idOf(reply)}\`.`] : []),
    ...(events ? [`### Events\n\n${stream}`] : []),
  ];
}
