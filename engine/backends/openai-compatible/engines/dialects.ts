import type { DialectName, EngineDialect } from "./engine-dialect.ts";
import { LLAMA_SERVER } from "./llama-server.ts";
import { SGLANG } from "./sglang.ts";
import { VLLM } from "./vllm.ts";

export const DIALECTS: Readonly<Record<DialectName, EngineDialect>> = {
  vllm: VLLM,
  sglang: SGLANG,
  "llama-server": LLAMA_SERVER,
};
