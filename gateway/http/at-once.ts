import type { FastifyReply, FastifyRequest, onRequestHookHandler } from "fastify";

/**
 * Makes a hook of what is done at once. A hook that returns a promise costs each request some of them, and a round of
 * the microtasks. What `run` throws refuses the request, as what such a promise is rejected with.
 */
export function atOnce(run: (request: FastifyRequest, reply: FastifyReply) => void): onRequestHookHandler {
  return (request, reply, done) => {
    run(request, reply);
    done();
  };
}
