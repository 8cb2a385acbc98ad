import { describe, expect, test } from "vitest";
import * as z from "zod";
import type { GoneKeys } from "../../deploy/runtime/config/gone-keys.ts";
import { checkConfig } from "../../deploy/runtime/config/load-config.ts";
import { engineConfigSchema } from "../../engine/config.ts";
import { GONE_KEYS as OF_ENGINE } from "../../engine/gone-keys.ts";
import { gatewayConfigSchema } from "../../gateway/config.ts";
import { GONE_KEYS as OF_GATEWAY } from "../../gateway/gone-keys.ts";

type Node = { readonly [name: string]: unknown };

/** Paths of all keys of a schema, as the pages of the configuration write them. */
function pathsOf(node: Node, path = ""): string[] {
  const of = (name: string) => Object.values((node[name] ?? {}) as Readonly<Record<string, Node>>);
  const properties = Object.entries((node.properties ?? {}) as Readonly<Record<string, Node>>);
  return [
    path,
    ...properties.flatMap(([name, below]) => pathsOf(below, path === "" ? name : `${path}.${name}`)),
    ...(node.items ? pathsOf(node.items as Node, `${path}[]`) : []),
    ...["anyOf", "oneOf", "allOf"].flatMap(of).flatMap((one) => pathsOf(one, path)),
  ];
}

/** A document with one key, in the sections of its path. */
function documentOf(path: string, value: unknown): unknown {
  return path.split(".").reduceRight<unknown>((below, step) => {
    return step.endsWith("[]") ? { [step.slice(0, -2)]: [below] } : { [step]: below };
  }, value);
}

function messageOf(schema: z.ZodType, document: unknown, gone: GoneKeys): string {
  try {
    checkConfig(schema, document, "f.yaml", gone);
  } catch (error) {
    return String(error);
  }
  throw new Error("it was accepted");
}

describe.each([
  ["gateway", gatewayConfigSchema, OF_GATEWAY],
  ["engine", engineConfigSchema, OF_ENGINE],
] as const)("keys of earlier releases of the %s", (_, schema, gone) => {
  const there = new Set(pathsOf(z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as Node));

  test("gone keys are in no schema, and their replacements are", () => {
    expect(Object.keys(gone).filter((path) => there.has(path))).toEqual([]);
    const replacements = Object.values(gone).flatMap((fate) => ("to" in fate ? [fate.to] : []));
    expect(replacements.filter((path) => !there.has(path))).toEqual([]);
    expect(there.size).toBeGreaterThan(30);
  });

  test.each(Object.entries(gone))("%s is refused with what became of it", (path, fate) => {
    const kinds = path.startsWith("backend.") ? ["llama", "scripted", "openai-compatible"] : [undefined];
    for (const kind of kinds) {
      const document = documentOf(path, 1) as { backend?: object };
      if (kind) document.backend = { kind, ...document.backend };
      const [, text] = Object.entries(fate)[0] ?? [];
      const written = path.replaceAll("[]", ".0");
      expect(messageOf(schema, document, gone)).toContain(`f.yaml: ${written}: `);
      expect(messageOf(schema, document, gone)).toContain(text);
    }
  });
});

test("each gone key of a section has its line, and an unknown key is only refused", () => {
  const redis = { url: "redis://a", commandTimeoutMs: 500, tls: { caFile: "ca.pem", keyFile: "key.pem" }, colour: 1 };
  const document = { keys: { file: "k" }, clusters: [], state: { redis } };
  expect(messageOf(gatewayConfigSchema, document, OF_GATEWAY).split("\n")).toEqual([
    "ConfigError: f.yaml: state.redis.commandTimeoutMs: removed, now constant 1000, twice in a row",
    "f.yaml: state.redis.tls.caFile: this key is state.redis.caFile now",
    "f.yaml: state.redis.tls.keyFile: removed: the store knows gateways by user and password",
    "f.yaml: state.redis.colour: unknown key; known here: url, passwordFile, caFile, keyPrefix, whenAway",
  ]);
});
