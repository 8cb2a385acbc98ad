import { once } from "node:events";
import { WebSocket } from "ws";

/** A conversation over one WebSocket: the first turn brings it whole, each further one its new items only. */
export function socketSession(
  { port, key }: { readonly port: number; readonly key: string },
  tools: readonly object[],
) {
  const ws = new WebSocket(`ws://127.0.0.1:${port}/v1/responses`, { headers: { authorization: `Bearer ${key}` } });
  const opened = once(ws, "open");
  let previous: string | undefined;
  const answered = () =>
    new Promise<void>((resolve, reject) => {
      const read = (data: Buffer) => {
        const { type, response } = JSON.parse(String(data)) as { type: string; response?: { id: string } };
        const isFailed = type === "error" || type === "response.failed";
        if (!isFailed && type !== "response.completed") return;
        ws.off("message", read);
        previous = response?.id;
        if (isFailed) reject(new Error(`a turn was answered ${data}`));
        else resolve();
      };
      ws.on("message", read);
    });
  return {
    /** Makes the next turn ready: `fresh` items behind all before. Its `send` resolves when the answer has ended. */
    ready(fresh: readonly object[]) {
      const frame = { type: "response.create", model: "svc-qwen", store: false, tools, input: fresh };
      const text = JSON.stringify({ ...frame, ...(previous && { previous_response_id: previous }) });
      const send = async () => {
        await opened;
        ws.send(text);
        await answered();
      };
      return { send };
    },
    close: () => ws.terminate(),
  };
}
