import { readBody } from "./read-until.ts";

/** Reads a reply to its end and resolves to its status. A stream whose engine is lost may be closed. */
export async function statusOf(reply: Promise<Response>): Promise<number> {
  const response = await reply;
  if (response.body) await readBody(response).toEndOrCut();
  return response.status;
}
