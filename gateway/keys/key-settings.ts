import * as z from "zod";

const path = (text: string) => z.string().min(1).describe(text);

/** Schema of the key store: a file, or the store that gateways share. */
export const keysSchema = z
  .strictObject({
    file: path("The path of the key file, which `npm run keys` writes.").optional(),
    redis: z
      .strictObject({
        pepperFile: path(
          "Path of the pepper of key digests: 32 random bytes, readable by their owner and group only, the same for all gateways. `npm run keys` creates it with the first key.",
        ),
      })
      .optional()
      .describe("The keys are in the store of `state.redis`, for the gateways of all hosts."),
  })
  .refine(({ file, redis }) => (file === undefined) !== (redis === undefined), "expected one of file and redis")
  .describe("Location of the API keys.");

export type KeysSettings = z.infer<typeof keysSchema>;
