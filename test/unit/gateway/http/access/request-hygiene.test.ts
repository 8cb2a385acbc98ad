import { describe, expect, test } from "vitest";
import { ApiError } from "../../../../../gateway/errors.ts";
import { checkHead } from "../../../../../gateway/http/access/request-hygiene.ts";

function outcome(rawHeaders: string[], httpVersion = "1.1", url: string | undefined = "/v1/models"): string {
  try {
    checkHead({ rawHeaders, httpVersion, url });
    return "fine";
  } catch (error) {
    if (error instanceof ApiError) return `${error.code} ${error.detail}`;
    throw error;
  }
}

const HOST = ["Host", "x"];
const fields = (count: number) => Array.from({ length: count }, () => ["a", "b"]).flat();

describe("the head of a request", () => {
  test.each<readonly [what: string, rawHeaders: string[], expected: string]>([
    ["a host", HOST, "fine"],
    ["80 fields", [...HOST, ...fields(79)], "fine"],
    ["81 fields", [...HOST, ...fields(80)], "header_fields_too_large header_fields_too_large"],
    ["no host", [], "bad_request unclear_host"],
    ["an empty host", ["host", ""], "fine"],
    ["two hosts", [...HOST, "host", "x"], "bad_request unclear_duplicate"],
    ["an empty host beside another", ["host", "", ...HOST], "bad_request unclear_duplicate"],
    ["chunked in any case", [...HOST, "Transfer-Encoding", "Chunked"], "fine"],
    ["chunked behind gzip", [...HOST, "transfer-encoding", "gzip, chunked"], "bad_request unclear_transfer_encoding"],
    ["an empty coding", [...HOST, "transfer-encoding", ""], "bad_request unclear_transfer_encoding"],
    ["identity", [...HOST, "content-encoding", "Identity"], "fine"],
    ["gzip", [...HOST, "content-encoding", "gzip"], "bad_request unclear_encoding"],
    ["two content types", [...HOST, "content-type", "a", "Content-Type", "a"], "bad_request unclear_duplicate"],
    ["utf-8", [...HOST, "content-type", 'application/json; charset="UTF-8"; x=y'], "fine"],
    ["utf-16", [...HOST, "content-type", "application/json;charset=utf-16"], "bad_request unclear_charset"],
    ["utf-8 in front of more", [...HOST, "content-type", "a/b; charset=utf-8x"], "bad_request unclear_charset"],
    ["an invitation", [...HOST, "expect", "100-Continue"], "fine"],
    ["another expectation", [...HOST, "expect", "200-ok"], "expectation_failed expectation_failed"],
  ])("with %s is judged on its raw fields", (_what, rawHeaders, expected) => {
    expect(outcome(rawHeaders)).toBe(expected);
  });

  test("HTTP/1.0 needs no host and has no chunks; other versions are refused", () => {
    expect(outcome([], "1.0")).toBe("fine");
    expect(outcome(["transfer-encoding", "chunked"], "1.0")).toBe("bad_request unclear_transfer_encoding");
    for (const version of ["0.9", "2.0", "1.2"]) expect(outcome(HOST, version)).toBe("bad_request unclear_version");
  });

  test.each(["http://x/", "*", "", "v1/models"])("the target %j is not a path", (url) => {
    expect(outcome(HOST, "1.1", url)).toBe("bad_request unclear_target");
  });
});
