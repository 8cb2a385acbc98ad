import { DEEPSEEK_V4, DEEPSEEK_V41 } from "./deepseek-v4.ts";
import { deepSeekV32 } from "./deepseek-v32.ts";
import { kimiK3 } from "./kimi-k3.ts";
import type { Renderer } from "./renderer.ts";

/** The names of the families whose prompts are made by code: their checkpoints hold no template in Jinja. */
export const RENDERER_NAMES = ["deepseek-v3.2", "deepseek-v4", "deepseek-v4.1", "kimi-k3"] as const;

export type RendererName = (typeof RENDERER_NAMES)[number];

export const RENDERERS: Readonly<Record<RendererName, Renderer>> = {
  "deepseek-v3.2": deepSeekV32,
  "deepseek-v4": DEEPSEEK_V4,
  "deepseek-v4.1": DEEPSEEK_V41,
  "kimi-k3": kimiK3,
};
