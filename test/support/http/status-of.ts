import { readBody } from "./read-until.ts";

/** Resolves to the status of a reply whose body is read away. A stream whose engine is lost may be cut. */
export async function statusOf(reply: Promise<Response>): Promise<number> {
  const response = await reply;
  if (response.body) await readBody(response).toEndOrCut();
  return response.status;
}
