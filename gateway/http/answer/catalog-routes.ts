import type { FastifyReply, FastifyRequest } from "fastify";
import { Capability } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { CATALOG_CREATED_SECONDS, type Catalog, type CatalogModel, findModel } from "../../catalog.ts";
import type { Principal } from "../../keys/principal.ts";
import { openApiDocument } from "../../reference/openapi.ts";
import type { DescribedModel } from "../../upstream/cluster/described-model.ts";
import { type ModelDirectory, modelNotFound } from "../access/model-directory.ts";
import { principalOf } from "../record/request-context.ts";
import { codexModel } from "./codex-catalog.ts";

/**
 * GET /v1/models: the models that the key can use now, and their aliases: agents show only names they recognize. With
 * `client_version`, which Codex sends, they are there as its catalog too.
 */
export function listModels(directory: ModelDirectory) {
  return async (request: FastifyRequest): Promise<object> => {
    const principal = principalOf(request);
    const usable = directory.usable(principal);
    const byId = new Map(usable.map((model) => [model.id, model]));
    const aliases = Object.entries(directory.catalog.aliases).flatMap(([alias, id]) => {
      const model = byId.get(id);
      return model ? [{ name: alias, model }] : [];
    });
    const names = [...usable.map((model) => ({ name: model.id, model })), ...aliases];
    const data = names.map(({ name, model }) => present(name, model, directory.described(model.id), principal));
    const list = {
      object: "list",
      data,
      has_more: false,
      first_id: data[0]?.id ?? null,
      last_id: data.at(-1)?.id ?? null,
    };
    if (!Object.hasOwn(Object(request.query), "client_version")) return list;
    const models = names.map(({ name, model }, at) => {
      const described = directory.described(model.id);
      const window = described?.contextWindow ?? model.contextWindow;
      return codexModel({ name, displayName: data[at]?.display_name ?? name, window, described }, at);
    });
    return { ...list, models };
  };
}

/** GET /v1/models/{model}, by id or alias. Throws `model_not_found` also for a model that the key cannot use now. */
export function getModel(directory: ModelDirectory) {
  return async (request: FastifyRequest): Promise<object> => {
    const name = String(Reflect.get(Object(request.params), "*"));
    const principal = principalOf(request);
    const model = findModel(name, directory.catalog);
    if (!model || !directory.usable(principal).includes(model)) throw modelNotFound(name);
    return present(name, model, directory.described(model.id), principal);
  };
}

/**
 * Returns a model as callers see it: the four fields of chat clients, and the fields that other SDKs and agents read
 * from the same path. Each agent has its own names for the context window, which decides when it shortens a
 * conversation.
 */
function present(
  name: string,
  model: CatalogModel,
  described: DescribedModel | undefined,
  { limits: { maxOutputTokens: most = Number.POSITIVE_INFINITY } }: Principal,
) {
  const window = described?.contextWindow ?? model.contextWindow;
  return {
    id: name,
    object: "model",
    created: CATALOG_CREATED_SECONDS,
    owned_by: "svc",
    type: "model",
    // Pickers of agents show the name and the description alone.
    display_name: name === model.id ? model.displayName : `${model.displayName} (${name})`,
    description: descriptionOf(name, model, window, described),
    created_at: new Date(CATALOG_CREATED_SECONDS * 1000).toISOString(),
    context_length: window,
    context_window: window,
    max_model_len: window,
    max_input_tokens: window,
    max_tokens: Math.min(described?.maxOutputTokens ?? window, most),
    capabilities: described ? capabilitiesOf(described) : null,
    lifecycle: "active",
    line: null,
    deprecated_at: null,
    retires_at: null,
  };
}

function descriptionOf(name: string, model: CatalogModel, window: number, described: DescribedModel | undefined) {
  const abilities = [
    ...(described?.capabilities.has(Capability.REASONING) ? ["reasoning"] : []),
    ...(described?.acceptsImages ? ["images"] : []),
  ];
  const more = abilities.length > 0 ? `, ${abilities.join(" and ")}` : "";
  const other = name === model.id ? "" : `Another name of ${model.id}. `;
  return `${other}Context window of ${window.toLocaleString("en-US")} tokens${more}.`;
}

/** Returns the capabilities of a model in the form of the SDK of Format B. */
function capabilitiesOf({ capabilities, acceptsImages }: DescribedModel) {
  const can = (...all: readonly Capability[]) => ({ supported: all.every((one) => capabilities.has(one)) });
  const [does, cannot] = [{ supported: true }, { supported: false }];
  const thinks = can(Capability.REASONING);
  return {
    batch: cannot,
    citations: cannot,
    code_execution: cannot,
    compaction: { ...does, summarize: does },
    context_management: {
      ...does,
      clear_thinking_20251015: cannot,
      clear_tool_uses_20250919: cannot,
      compact_20260112: does,
    },
    effort: { ...thinks, low: thinks, medium: thinks, high: thinks, xhigh: thinks, max: thinks },
    image_input: { supported: acceptsImages },
    pdf_input: cannot,
    server_tools: { supported: false, code_execution: cannot, web_search: cannot },
    structured_outputs: can(Capability.JSON_SCHEMA),
    thinking: {
      ...thinks,
      types: {
        adaptive: thinks,
        between_tools: thinks,
        disabled: thinks.supported ? can(Capability.REASONING_OFF) : does,
        enabled: thinks,
      },
    },
  };
}

/** Makes the handler of GET /openapi.json. The document is made once, for the first request of it. */
export function getContract({ models }: Catalog) {
  let text: string | undefined;
  return async (_request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    text ??= JSON.stringify(openApiDocument(models.map(({ id }) => id)));
    return reply.type("application/json; charset=utf-8").send(text);
  };
}
