import { testsBeside } from "./engine-suite.ts";

await testsBeside("llama-server");
