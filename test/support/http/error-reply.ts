import { expect } from "vitest";
import { valueAt } from "./value-at.ts";

/** Fails unless this is a complete envelope of Format A with that code, and that `param` if given. */
export async function expectErrorA(
  response: Response,
  status: number,
  code: string,
  param?: string | null,
): Promise<string> {
  const body: unknown = await response.json();
  expect({ status: response.status, code: valueAt(body, "error", "code") }).toEqual({ status, code });
  expect(response.headers.get("content-type")).toContain("application/json");
  const error = valueAt(body, "error");
  expect(Object.keys(error as object).sort()).toEqual(["code", "message", "param", "type"]);
  expect(typeof valueAt(error, "type")).toBe("string");
  if (param !== undefined) expect(valueAt(error, "param")).toBe(param);
  return messageOf(error);
}

/** Fails unless this is a complete envelope of Format B with that type. */
export async function expectErrorB(response: Response, status: number, type: string): Promise<string> {
  const body: unknown = await response.json();
  expect({ status: response.status, type: valueAt(body, "error", "type") }).toEqual({ status, type });
  expect(response.headers.get("content-type")).toContain("application/json");
  expect(body).toMatchObject({ type: "error", request_id: response.headers.get("request-id") });
  return messageOf(valueAt(body, "error"));
}

function messageOf(error: unknown): string {
  const message = valueAt(error, "message");
  expect(typeof message).toBe("string");
  expect(message).not.toBe("");
  return String(message);
}
