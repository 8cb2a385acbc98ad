import { testsBeside } from "./engine-suite.ts";

await testsBeside("vllm");
