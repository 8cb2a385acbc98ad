import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";
import { DONE, fileOf, TASK } from "../task.ts";

/*
 * The task of the lane as an application does it with the vendor's SDK for Node: one socket, each turn continues the
 * last one by its new items, and what the SDK reports is answered as the vendor's guide has it.
 */

export type SocketPlace = {
  readonly baseUrl: string;
  readonly key: string;
  readonly ca: Buffer;
  readonly model: string;
  /** Troubles after which the application gives up. */
  readonly patience: number;
};

/** What the application saw: the files that it was asked to write, and each trouble as the SDK shows it. */
export type SocketTask = { readonly files: readonly string[]; readonly said: string; readonly troubles: string[] };

/** Milliseconds before it tries again after a trouble without a time of its own. */
const PAUSE_MS = 1_000;

export const TOOL = {
  type: "function",
  name: "write_file",
  description: "Writes a file.",
  strict: false,
  parameters: { type: "object", properties: { path: { type: "string" }, content: { type: "string" } } },
} as const;

type Item = OpenAI.Responses.ResponseInputItem;
type Trouble = { readonly text: string; readonly code?: string | null | undefined; readonly isClosed: boolean };

/** Does the task. Never rejects. */
export async function socketTask({ baseUrl, key, ca, model, patience }: SocketPlace): Promise<SocketTask> {
  const client = new OpenAI({ apiKey: key, baseURL: baseUrl });
  const items: Item[] = [{ role: "user", content: TASK }];
  const files: string[] = [];
  const troubles: string[] = [];
  let socket: ResponsesWS | undefined;
  let last: { readonly id: string; readonly items: number } | undefined;
  let said = "";
  while (said === "" && troubles.length < patience) {
    socket ??= new ResponsesWS(client, { ca });
    const input = items.slice(last?.items ?? 0);
    const answer = await turn(socket, { model, ...(last && { previous_response_id: last.id }), input });
    if ("isClosed" in answer) {
      troubles.push(answer.text);
      last = undefined;
      if (answer.isClosed) socket = undefined;
      if (answer.code !== "previous_response_not_found") await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      continue;
    }
    items.push(...(answer.output as Item[]));
    last = { id: answer.id, items: items.length };
    for (const item of answer.output) {
      if (item.type === "message") said = answer.output_text;
      if (item.type !== "function_call") continue;
      files.push(JSON.parse(item.arguments).path);
      items.push({ type: "function_call_output", call_id: item.call_id, output: "written" });
    }
  }
  socket?.close();
  return { files, said, troubles };
}

/** Whether the task is finished: each file was asked for once, in order. */
export function isDone({ files, said }: SocketTask, steps: number): boolean {
  const wanted = Array.from({ length: steps }, (_, at) => fileOf(at + 1));
  return said === DONE && files.map((file) => file.split("/").at(-1)).join() === wanted.join();
}

function turn(socket: ResponsesWS, fields: object): Promise<OpenAI.Responses.Response | Trouble> {
  return new Promise((resolve) => {
    const trouble = (text: string, isClosed: boolean, code?: string | null) => resolve({ text, isClosed, code });
    socket.once("error", (error) => {
      const frame = error.error as
        | { readonly error?: { readonly code?: string; readonly message?: string } }
        | undefined;
      const inner = frame?.error;
      const text = inner?.message === undefined ? error.message : `${inner.code}: ${inner.message}`;
      trouble(text, socket.socket.readyState > 1 || inner?.message === undefined, inner?.code);
    });
    socket.once("close", (code) => trouble(`closed with ${code}`, true));
    socket.once("response.failed", ({ response }) =>
      trouble(`response.failed ${response.error?.code}: ${response.error?.message}`, false, response.error?.code),
    );
    socket.once("response.completed", ({ response }) => resolve(response));
    socket.send({ type: "response.create", store: false, tools: [TOOL], ...fields } as never);
  });
}
