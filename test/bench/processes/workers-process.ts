import cluster from "node:cluster";
import { GatewayWorkers } from "../../../deploy/local/gateway-workers.ts";
import { parseOptions } from "../../../deploy/local/options.ts";
import { localKey, openState } from "../../../deploy/local/state.ts";
import { Supervisor } from "../../../deploy/local/supervisor.ts";
import { GATEWAY_PROGRAM } from "./gateway-process.ts";

/*
 * The gateway workers of the benches, which share a port as those of `npm start` do. Takes the folder of its files, the
 * number of workers and the address of an engine. Prints `ready {"baseUrl":…,"adminUrls":[…],"key":…,"pids":[…]}`.
 */

const [folder = "", workers = "", engine = ""] = process.argv.slice(2);
const ports = ["--port", "0", "--admin-port", "0", "--engine-port", "0"];
const options = parseOptions([...ports, "--gateways", workers, "--state-dir", folder, "--log-level", "info"]);
const state = await openState(folder);
const key = await localKey(state, new AbortController().signal);
const supervisor = new Supervisor((text) => console.error(text));
const gateways = new GatewayWorkers({ program: GATEWAY_PROGRAM, state, options, engines: [engine] });
const [first] = await supervisor.start(gateways.programs);
const pids = Object.values(cluster.workers ?? {}).map((worker) => worker?.process.pid);
const stop = () => void supervisor.stop().then(() => process.exit());
process.once("SIGTERM", stop);
process.once("disconnect", stop);
const ready = { baseUrl: first?.baseUrl, adminUrls: gateways.adminUrls, key, pids };
process.stdout.write(`ready ${JSON.stringify(ready)}\n`);
