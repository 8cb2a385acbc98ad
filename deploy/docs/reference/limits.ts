import { gatewayConfigSchema } from "../../../gateway/config.ts";
import { MAX_LOGIT_BIAS } from "../../../gateway/formats/chat/schema.ts";
import { MAX_CACHE_KEY_LENGTH, MAX_STOP_STRINGS } from "../../../gateway/formats/fields.ts";
import { MAX_MESSAGES } from "../../../gateway/formats/messages/schema.ts";
import { MAX_CLIENT_METADATA_BYTES, MAX_METADATA } from "../../../gateway/formats/responses/schema.ts";
import {
  MAX_SCHEMA_BYTES,
  MAX_SCHEMA_DEPTH,
  MAX_STRICT_SCHEMA_BYTES,
  MAX_TOOLS,
} from "../../../gateway/formats/tools.ts";
import { MAX_HEADER_FIELDS } from "../../../gateway/http/access/request-head.ts";
import { MAX_HEADER_BYTES } from "../../../gateway/http/connection/public-app.ts";
import { MAX_JSON_DEPTH, MAX_JSON_NODES } from "../../../gateway/json/json-body.ts";
import { table } from "../markdown.ts";

const many = (count: number) => count.toLocaleString("en-US");
const bytes = (count: number) => (count >= 2 ** 20 ? `${count / 2 ** 20} MiB` : `${count / 2 ** 10} KiB`);

/** Writes the table of what a request may have, whatever the key. */
export function limitTable(): string {
  const { pairs, keyLength, valueLength } = MAX_METADATA;
  return table(
    ["what", "limit", "beyond it"],
    [
      ["body of a request", bytes(gatewayConfigSchema.shape.maxBodyBytes.parse(undefined)), "413"],
      ["all header fields together", bytes(MAX_HEADER_BYTES), "431"],
      ["number of header fields", many(MAX_HEADER_FIELDS), "431"],
      ["values of all kinds in a body's JSON", many(MAX_JSON_NODES), "400"],
      ["levels of JSON in a body", many(MAX_JSON_DEPTH), "400"],
      ["messages, or items of `input`", many(MAX_MESSAGES), "400"],
      ["tools", many(MAX_TOOLS), "400"],
      ["name of a tool", "1 to 128 of letters, digits, `_`, `-`, `.` and `:`", "400"],
      ["one JSON Schema", `${bytes(MAX_SCHEMA_BYTES)}, ${MAX_SCHEMA_DEPTH} levels, no reference to elsewhere`, "400"],
      ["one JSON Schema with `strict`", bytes(MAX_STRICT_SCHEMA_BYTES), "400"],
      ["stop texts", many(MAX_STOP_STRINGS), "400"],
      ["entries of `logit_bias`", many(MAX_LOGIT_BIAS), "400"],
      ["`top_logprobs`", "20", "400"],
      ["`prompt_cache_key`", `${MAX_CACHE_KEY_LENGTH} characters`, "400"],
      [
        "`metadata` of responses",
        `${pairs} pairs, keys of ${keyLength} and values of ${valueLength} characters`,
        "400",
      ],
      ["`client_metadata` of responses", bytes(MAX_CLIENT_METADATA_BYTES), "400"],
      ["choices of an answer (`n`)", "1", "400"],
    ],
  );
}
