import { expect, test } from "vitest";
import { checkConfig } from "../../../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../../../gateway/config.ts";

/** Checks a configuration with these settings of tokens; returns the fault. */
function faultOf(jwt: object): string | undefined {
  const tokens = { issuer: "https://login.example", audience: ["svc"], ...jwt };
  try {
    checkConfig(gatewayConfigSchema, { keys: { file: "keys.json" }, clusters: [], auth: { jwt: tokens } }, "g.yaml");
    return undefined;
  } catch (error) {
    return String(error);
  }
}

test.each([
  { jwksUrl: "https://login.example/jwks" },
  { jwksUrl: "http://127.0.0.1:8080/jwks" },
  { jwksUrl: "http://[::1]:8080/jwks" },
  { jwksUrl: "http://localhost/jwks" },
  { jwksFile: "jwks.json", requiredType: "at+jwt" },
  { jwksFile: "jwks.json", requiredType: "application/at+jwt" },
])("tokens are taken by %j", (jwt) => {
  expect(faultOf(jwt)).toBeUndefined();
});

test.each([
  [{ jwksUrl: "http://login.example/jwks" }, /auth\.jwt\.jwksUrl: expected https: beyond this machine/],
  [{ jwksUrl: "http://10.0.0.1/jwks" }, /auth\.jwt\.jwksUrl: expected https:/],
  [{ jwksUrl: "http://localhost.login.example/jwks" }, /auth\.jwt\.jwksUrl: expected https:/],
  [{ jwksUrl: "http://127.0.0.1@login.example/jwks" }, /auth\.jwt\.jwksUrl: expected https:/],
  [{ jwksUrl: "http:/" }, /auth\.jwt\.jwksUrl/],
  [{ jwksUrl: "ftp://login.example" }, /auth\.jwt\.jwksUrl/],
  [{ jwksFile: "jwks.json", requiredType: "at jwt" }, /auth\.jwt\.requiredType: expected a media type/],
])("tokens are not taken by %j", (jwt, fault) => {
  expect(faultOf(jwt)).toMatch(fault);
});
