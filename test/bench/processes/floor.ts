import { once } from "node:events";
import { Agent, createServer as createHttpServer, request as httpRequest } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Server } from "node:net";

/*
 * What the gateway is compared with, a program of its own: `floor.js <kind> <port>` passes everything on to a port of
 * this machine and understands nothing of it. Prints `ready {"port":…}`.
 */

/** Makes a server that passes bytes from one socket to the other: nothing in Node can cost less. */
function bytePassThrough(port: number): Server {
  const server = createTcpServer({ noDelay: true }, (downstream) => {
    const upstream = connect({ port, host: "127.0.0.1", noDelay: true });
    downstream.pipe(upstream).pipe(downstream);
    for (const [socket, other] of [
      [downstream, upstream],
      [upstream, downstream],
    ] as const) {
      socket.on("error", () => {});
      socket.on("close", () => other.destroy());
    }
  });
  return server;
}

/** The proxy that one writes first: HTTP is understood, events are not. */
function naiveProxy(port: number): Server {
  const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  return createHttpServer((request, response) => {
    const { method, url: path, headers } = request;
    const upstream = httpRequest({ host: "127.0.0.1", port, agent, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    upstream.on("error", () => response.destroy());
    response.on("close", () => {
      if (!response.writableFinished) upstream.destroy();
    });
    request.pipe(upstream);
  });
}

const [kind, target] = process.argv.slice(2);
const server = kind === "http" ? naiveProxy(Number(target)) : bytePassThrough(Number(target));
server.listen(0, "127.0.0.1");
await once(server, "listening");
process.on("disconnect", () => process.exit());
process.on("SIGTERM", () => process.exit());
process.stdout.write(`ready ${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`);
