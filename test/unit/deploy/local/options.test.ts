import { expect, test } from "vitest";
import { parseOptions, wantedPorts } from "../../../../deploy/local/options.ts";

test("engines after the first follow its ports", () => {
  const options = parseOptions(["--engines", "2", "--metrics-port", "9464"]);
  expect(wantedPorts(options)).toEqual([
    { flag: "--port", port: 8080 },
    { flag: "--admin-port", port: 9901 },
    { flag: "--engine-port", port: 50_051 },
    { flag: "--engine-port", port: 50_052 },
    { flag: "--metrics-port", port: 9464 },
    { flag: "--metrics-port", port: 9465 },
  ]);
});

test("any free port stays any free port", () => {
  const options = parseOptions(["--engines", "3", "--admin-port", "0", "--engine-port", "0", "--port", "0"]);
  expect(new Set(wantedPorts(options).map(({ port }) => port))).toEqual(new Set([0]));
});

test.each([
  {
    args: ["--engine-port", "65535", "--engines", "2"],
    says: /--engine-port: the ports that follow it go beyond 65535/,
  },
  { args: ["--port", "9902", "--admin-port", "9902"], says: /--admin-port: 9902 is asked for by --port, too/ },
  {
    args: ["--admin-port", "50052", "--engines", "2"],
    says: /--engine-port: 50052 is asked for by --admin-port, too/,
  },
  { args: ["--gateways", "2"], says: /unknown option '--gateways'/ },
])("$args is refused as usage", ({ args, says }) => {
  expect(() => parseOptions(args)).toThrow(says);
});
