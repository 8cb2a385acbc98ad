import type { Llama } from "node-llama-cpp";

/** The optional engine; undefined without a binary for this machine. */
export async function loadLlama(): Promise<Llama | undefined> {
  try {
    const { getLlama } = await import("node-llama-cpp");
    return await getLlama({ build: "never", skipDownload: true, progressLogs: false, gpu: false });
  } catch {
    return undefined;
  }
}
