import * as z from "zod";

/** Schema of the settings of the try-it page. */
export const tryItSchema = z
  .strictObject({
    hosts: z
      .array(z.string().min(1).toLowerCase())
      .default([])
      .describe(
        "Host names, without a port, under which browsers may open the page, besides IP addresses and `localhost`: an attacker can point any other name at this address, and scripts of that name's site could then read the user's input.",
      ),
  })
  .optional()
  .describe(
    "Page at `/` of the public API to try the API with a pasted key; without this section there is none. `npm start` has it.",
  );

/** Undefined without a page. */
export type TryItSettings = z.output<typeof tryItSchema>;
