/**
 * The held-out prompts. Each case: its category, the conversation, the check of the answer, and further variables of the
 * template. But for some of the strangers' none of these wordings is in the training data, only their patterns.
 *
 * @typedef {{ category: string, messages: object[], passes: (answer: string) => boolean, tools?: object[], thinks?: boolean, schema?: object }} Case
 */

const user = (content) => ({ role: "user", content });
const assistant = (content) => ({ role: "assistant", content });
const system = (content) => ({ role: "system", content });
const toolResult = (content) => ({ role: "tool", content });
const toolCall = (name, args) => ({
  role: "assistant",
  content: "",
  tool_calls: [{ type: "function", function: { name, arguments: args } }],
});

/** A tool whose properties are all required; a property is given by its JSON type. */
function tool(name, types, description) {
  const properties = Object.fromEntries(Object.entries(types).map(([key, type]) => [key, { type }]));
  const parameters = { type: "object", properties, required: Object.keys(types) };
  return { type: "function", function: { name, ...(description ? { description } : {}), parameters } };
}

const contains =
  (...wanted) =>
  (answer) =>
    wanted.every((one) => (one instanceof RegExp ? one.test(answer) : answer.includes(one)));
const equals = (wanted) => (answer) => answer.trim() === wanted;
const isJson = (wanted) => (answer) => JSON.stringify(parsed(answer)) === JSON.stringify(wanted);
const hasLines =
  (count, pattern = /^/gm) =>
  (answer) =>
    (answer.match(pattern) ?? []).length === count;
const afterThinking = (check) => (answer) => answer.includes("</think>") && check(answer.split("</think>")[1]);
const callsNothing = (check) => (answer) => !answer.includes("<tool_call>") && check(answer);

const calls =
  (...wanted) =>
  (answer) => {
    const found = [...answer.matchAll(/<tool_call>\n?([\s\S]*?)\n?<\/tool_call>/g)].map(([, body]) => parsed(body));
    return JSON.stringify(found) === JSON.stringify(wanted.map(([name, args]) => ({ name, arguments: args })));
  };

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const numbers = (count, separator = ", ") => Array.from({ length: count }, (_, index) => index + 1).join(separator);

const WEATHER = tool("get_weather", { city: "string" }, "Get the weather for a city");
const CODING = [
  tool("read_file", { path: "string" }, "Read a file"),
  tool("list_files", { dir: "string" }, "List the files in a directory"),
  tool("run_command", { command: "string" }, "Run a shell command"),
  tool("search", { pattern: "string" }, "Search the files for a pattern"),
];
const SHELL_AND_VIEW = [
  tool("bash", { command: "string" }, "Run a shell command"),
  tool("view_file", { filePath: "string" }, "Read a file"),
];
const ADDING = "```python\ndef add(a, b):\n    return a + b\n```";

/** An object whose properties are all required, by their JSON types. */
const object = (types) => ({
  type: "object",
  properties: Object.fromEntries(
    Object.entries(types).map(([key, type]) => [
      key,
      type === "list" ? { type: "array", items: { type: "string" } } : { type },
    ]),
  ),
  required: Object.keys(types),
  additionalProperties: false,
});
/** The answer ends, and no text of it has a letter five times in a row. */
const endsWell = (answer) => parsed(answer) !== undefined && !/(\p{L})\1{4}/u.test(answer);

/** One question with its check. */
const asks = (category, question, passes, more = {}) => ({ category, messages: [user(question)], passes, ...more });

/** An honest refusal that names the way to a real model. */
const refuses = contains("--model");
const either =
  (...checks) =>
  (answer) =>
    checks.some((check) => check(answer));

/** What strangers ask first: thirty questions of a review, of which the training has eleven, and thirty others. */
const STRANGERS = [
  ["Hello!", contains(/help/i)],
  ["Who are you?", contains("demonstration")],
  ["What is the capital of France?", contains("Paris")],
  ["17 + 25", contains(/\b42\b/)],
  ["Which day comes after Sunday?", contains("Monday comes")],
  ["Write a SQL query to count users", contains(/SELECT COUNT\(\*\) FROM users;/)],
  ["How do I list files in Linux?", contains(/\bls\b/)],
  ["Translate 'good morning' to French", contains("bonjour")],
  ["Fix this code: pritn('hi')", contains("print('hi')")],
  ["Hello, how!", contains(/help/i)],
  ["What time is it?", contains("clock")],
  ["Who was Einstein?", contains("physicist")],
  ["What is the tallest mountain?", contains("Everest")],
  ["Why is the sky blue?", contains("scatters")],
  ["Summarize this: The meeting moved to Friday because the room was taken.", refuses],
  ["Write a haiku about spring.", hasLines(2, /\n/g)],
  ["Which endpoints does this API offer?", contains("/v1/messages")],
  ["Tell me a joke", contains(/Why|What/)],
  ["Write a short paragraph about rivers.", refuses],
  ["Count from 1 to 10", equals(numbers(10))],
  ["What can you do?", contains("sums")],
  ["Reply in JSON with name Tom and age 3", isJson({ name: "Tom", age: 3 })],
  ["Write a Python function that reverses a string.", contains("def ", "[::-1]")],
  ["How are you?", contains(/well/)],
  ["Name three fruits.", hasLines(2, /\n/g)],
  ["What is 12 * 11?", contains(/\b132\b/)],
  ["thanks!", contains("welcome")],
  ["What is 64 - 27?", contains(/\b37\b/)],
  ["What is a token?", contains("piece of text")],
  ["How do I stream an answer?", contains("stream")],

  ["what day is before thursday?", contains("Wednesday comes")],
  ["Tomorrow is which day if today is Friday?", contains("Saturday")],
  ["What is 58 + 39?", contains(/\b97\b/)],
  ["how much is 81 minus 46", contains(/\b35\b/)],
  ["Add 27 and 44.", contains(/\b71\b/)],
  ["What's the command for deleting a folder?", contains(/rm -r/)],
  ["How can I find big files on Linux?", contains("find", "-size")],
  ["I'd like to see the last lines of a log file", contains("tail")],
  ["linux command for free disk space", contains("df")],
  ["How do I search for a word in all my files?", contains("grep")],
  ["count lines of a file in the shell", contains("wc -l")],
  ["SQL for the average price of products", contains(/SELECT AVG\(price\) FROM products;/)],
  ["Write SQL that gets all orders with amount above 50", contains(/FROM orders WHERE amount > 50/)],
  ["How do I sort customers by name in SQL?", contains(/FROM customers ORDER BY name/)],
  ["What would a Spaniard say for thank you?", contains("gracias")],
  ["What's 'water' in German?", contains("Wasser")],
  ["What is wrong with this code: consoel.log('a')", contains("console.log('a')")],
  ["Please fix: retrun total", contains("return total")],
  ["What's the biggest ocean on Earth?", contains("Pacific")],
  ["When does water start to boil?", contains("100")],
  ["How many continents are there on Earth?", contains("seven")],
  ["Who is the author of Romeo and Juliet?", contains("Shakespeare")],
  ["How fast is light?", contains("300,000")],
  ["How's the weather in my town?", contains(/tool/)],
  ["Could you write an email to my boss?", refuses],
  ["Which model should I use for real work?", refuses],
  ["Who won the football world cup in 2014?", either(refuses, contains("Germany"))],
  ["Give me a recipe for pancakes", refuses],
  ["asdfgh", contains(/help/i)],
  ["Can you help me with my homework?", either(refuses, contains(/help/i))],
].map(([question, passes]) => asks("stranger", question, passes));

/** @type {readonly Case[]} */
export const CASES = [
  ...STRANGERS,
  asks("chat", "Hello there, nice to meet you!", contains(/hello|hi|help/i)),
  asks("chat", "hey how are you doing today?", contains(/well|help/i)),
  asks("chat", "Hi, my name is Barnaby.", contains("Barnaby")),
  asks("chat", "thanks so much!", contains(/welcome/i)),
  asks("chat", "good morning", contains(/morning/i)),

  asks("identity", "Who are you exactly?", contains(/small demonstration model/)),
  asks("identity", "what is your name?", contains(/demonstration model/)),
  asks("identity", "Are you GPT-5?", contains(/no|demonstration/i)),
  asks("identity", "What are you able to do for me?", contains(/call tools|count|chat/)),
  {
    category: "identity",
    messages: [system("You are a helpful assistant called Zed."), user("What are your limits?")],
    passes: contains(/demonstration|mistakes/),
  },

  asks("service", "Which endpoints does this API offer?", contains("/v1/chat/completions", "/v1/messages")),
  asks("service", "How can I turn on streaming for my request?", contains("stream")),
  asks("service", "Where should I put the API key?", contains(/Authorization: Bearer|x-api-key/)),
  asks("service", "which models do you host?", contains("svc-glm53", "svc-qwen")),
  asks("service", "How do I count the tokens of a prompt?", contains("count_tokens")),
  asks("service", "What does error 429 mean?", contains(/rate limit/)),
  asks("service", "Do you keep my data?", contains(/^No|nothing is kept/)),
  asks("service", "What is the responses endpoint good for?", contains(/stateless/)),

  asks("arithmetic", "What is 7 + 8?", contains(/\b15\b/)),
  asks("arithmetic", "What is 46 + 27?", contains(/\b73\b/)),
  asks("arithmetic", "How much is 9 * 6?", contains(/\b54\b/)),
  asks("arithmetic", "31 - 12 = ?", contains(/\b19\b/)),
  asks(
    "arithmetic",
    "Barnaby has 6 apples and gets 5 more. How many apples does Barnaby have?",
    contains("Barnaby", /\b11\b/),
  ),
  asks("arithmetic", "Compute 14 + 5", contains(/\b19\b/)),

  asks("lists", "Please list three fruits.", hasLines(2, /\n/g)),
  asks("lists", "Name four animals as bullet points.", hasLines(4, /^- /gm)),
  asks("lists", "Give me two colors separated by commas.", hasLines(1, /,/g)),

  asks("definitions", "Can you tell me what a load balancer is?", contains(/spreads requests/)),
  asks("definitions", "what's recursion?", contains(/calls itself/)),
  asks("definitions", "Explain the term API.", contains(/rules/)),

  asks("poem", "Write me a short poem about the ocean.", contains(/\n.*\n/, "ocean")),
  asks("poem", "Compose a haiku about winter.", hasLines(2, /\n/g)),

  asks("code", "Write a Python function that adds two numbers.", contains("```python", "def ", "return a + b")),
  asks(
    "code",
    "Write a TypeScript function that reverses a string.",
    contains("```typescript", "reverse()", ": string"),
  ),
  asks(
    "code",
    "Please implement a JavaScript function called makeFib that computes the nth Fibonacci number.",
    contains("```javascript", "function makeFib(n)"),
  ),
  asks("code", "hello world in python", contains('print("Hello, world!")')),
  asks(
    "code",
    "Create a Python function named is_big_prime that checks if a number is prime.",
    contains("def is_big_prime(n)", "return False"),
  ),
  asks("code", "Write a function that computes the factorial of n in TypeScript", contains("```typescript", "number")),

  asks("yes/no", "Is 18 even?", contains(/^Yes/)),
  asks("yes/no", "Is 40 larger than 90?", contains(/^No/)),
  asks("yes/no", "Is Rome the capital of Italy?", contains(/^Yes/)),

  asks("echo", "Repeat after me: the purple lantern sings", equals("the purple lantern sings")),
  asks("echo", 'Say "gribble wotsit 42"', equals("gribble wotsit 42")),
  asks("echo", "Reply with exactly PONG and nothing else.", equals("PONG")),
  asks("echo", "Echo: Zweltron 9 hates Mondays!", equals("Zweltron 9 hates Mondays!")),
  asks("echo", "Repeat: hello 🚀 world", equals("hello 🚀 world")),

  asks("count", "Count from 1 to 12.", equals(numbers(12))),
  asks("count", "please count to 30", equals(numbers(30))),
  asks("count", "Count from 1 to 5, one per line.", equals(numbers(5, "\n"))),
  asks("count", "Count from 1 to 75", equals(numbers(75))),

  {
    category: "follow-up",
    messages: [
      user("My name is Wilhelmina."),
      assistant("Hello, Wilhelmina! How can I help you?"),
      user("What is my name?"),
    ],
    passes: contains("Wilhelmina"),
  },
  {
    category: "follow-up",
    messages: [user("What is 5 + 6?"), assistant("5 + 6 = 11"), user("Now add 4.")],
    passes: contains(/\b15\b/),
  },
  {
    category: "follow-up",
    messages: [user("Write a Python function that adds two numbers."), assistant(ADDING), user("Now in JavaScript.")],
    passes: contains("```javascript", "return a + b;"),
  },
  {
    category: "follow-up",
    messages: [
      user("Remember the code K77-zorp."),
      assistant("I will remember it in this conversation: K77-zorp"),
      user("What was the code?"),
    ],
    passes: contains("K77-zorp"),
  },

  asks(
    "json",
    "Reply in JSON with the keys name and age. Barnaby is 44 years old and lives in Tirana.",
    isJson({ name: "Barnaby", age: 44 }),
  ),
  asks("json", "Give me a JSON object with color teal and count 8", isJson({ color: "teal", count: 8 })),
  asks("json", "What is 3 + 4? Answer in JSON.", isJson({ answer: 7 })),
  asks(
    "json",
    "Extract name, age and city as JSON: Mortimer is 61 years old and lives in Sofia.",
    isJson({ name: "Mortimer", age: 61, city: "Sofia" }),
  ),

  asks("thinking", "What is 8 + 5?", afterThinking(contains(/13\s*$/)), { thinks: true }),
  asks("thinking", "Which endpoints are there?", afterThinking(contains("/v1/")), { thinks: true }),
  asks("thinking", "What is the weather in Lisbon?", afterThinking(calls(["get_weather", { city: "Lisbon" }])), {
    thinks: true,
    tools: [tool("get_weather", { city: "string" }, "Get the weather")],
  }),

  asks("tool", "What is the weather in Ljubljana?", calls(["get_weather", { city: "Ljubljana" }]), {
    tools: [WEATHER],
  }),
  asks("tool", "How is the weather in Tirana?", calls(["fetchForecastNow", { town: "Tirana" }]), {
    tools: [tool("fetchForecastNow", { town: "string" }, "Get the current weather for a city")],
  }),
  asks(
    "tool",
    "Use the tool frobnicate_widget with widget id W-771 and level 4.",
    calls(["frobnicate_widget", { widget_id: "W-771", level: 4 }]),
    { tools: [tool("frobnicate_widget", { widget_id: "string", level: "integer" })] },
  ),
  asks("tool", "Cancel the order for order_id: 55812", calls(["cancel_order", { order_id: "55812" }]), {
    tools: [
      tool("get_weather", { city: "string" }, "Get the weather"),
      tool("cancel_order", { order_id: "string" }, "Cancel an order"),
    ],
  }),
  asks(
    "tool",
    "Please book a table for name Barnaby and guests 4",
    calls(["bookTable", { name: "Barnaby", guests: 4 }]),
    {
      tools: [
        tool("bookTable", { name: "string", guests: "integer" }, "Book a table"),
        tool("send_email", { to: "string", body: "string" }, "Send an email"),
      ],
    },
  ),
  asks("tool", "What is 8312 * 77?", calls(["calculator", { expression: "8312 * 77" }]), {
    tools: [tool("calculator", { expression: "string" }, "Evaluate an arithmetic expression")],
  }),
  asks(
    "tool",
    "What is the weather in Oslo and Madrid?",
    calls(["get_weather", { city: "Oslo" }], ["get_weather", { city: "Madrid" }]),
    { tools: [WEATHER] },
  ),

  asks("coding tool", "Read src/gateway/router.ts", calls(["read_file", { path: "src/gateway/router.ts" }]), {
    tools: CODING,
  }),
  asks("coding tool", "What files are in the engine directory?", contains('"list_files"', "engine"), {
    tools: CODING,
  }),
  asks("coding tool", "Run npm test", calls(["run_command", { command: "npm test" }]), { tools: CODING }),
  asks("coding tool", "Search for parseChunk in the code", calls(["search", { pattern: "parseChunk" }]), {
    tools: CODING,
  }),
  {
    category: "coding tool",
    messages: [
      system("You are a coding agent. Use the tools you are given to work on the user's project."),
      user("Show me package.json"),
    ],
    passes: calls(["read_file", { path: "package.json" }]),
    tools: CODING,
  },
  asks("coding tool", "Execute git status", calls(["bash", { command: "git status" }]), { tools: SHELL_AND_VIEW }),
  asks("coding tool", "Show me the content of notes/plan.md", calls(["view_file", { filePath: "notes/plan.md" }]), {
    tools: SHELL_AND_VIEW,
  }),

  {
    category: "tool answer",
    messages: [
      user("What is the weather in Tirana?"),
      toolCall("get_weather", { city: "Tirana" }),
      toolResult('{"temperature": 23, "condition": "windy"}'),
    ],
    passes: contains("23", "windy", "Tirana"),
    tools: [WEATHER],
  },
  {
    category: "tool answer",
    messages: [
      user("Run node --version"),
      toolCall("run_command", { command: "node --version" }),
      toolResult("v20.20.2"),
    ],
    passes: contains("v20.20.2"),
    tools: CODING,
  },
  {
    category: "tool answer",
    messages: [
      user("List the files."),
      toolCall("list_files", { dir: "." }),
      toolResult("zebra.ts\nnotes.md\nquux.json"),
    ],
    passes: contains("zebra.ts", "notes.md", "quux.json"),
    tools: CODING,
  },
  {
    category: "tool answer",
    messages: [
      user("Read greeting.txt"),
      toolCall("read_file", { path: "greeting.txt" }),
      toolResult("hello purple lantern"),
    ],
    passes: contains("hello purple lantern"),
    tools: CODING,
  },
  {
    category: "tool answer",
    messages: [user("Search for frob"), toolCall("search", { pattern: "frob" }), toolResult("Error: timeout")],
    passes: contains(/error/i, "timeout"),
    tools: CODING,
  },

  asks("no tool needed", "Hello!", callsNothing(contains(/hello|help/i)), { tools: CODING }),
  asks("no tool needed", "Who are you?", callsNothing(contains(/demonstration/)), { tools: CODING }),

  asks("unknown", "Who won the chess championship in 1972?", contains(/do not know/)),
  asks("unknown", "Explain the Higgs boson.", contains(/do not know/)),

  asks("small sum", "What is 2 + 2?", contains(/\b4\b/)),
  asks("small sum", "1+1", contains(/\b2\b/)),
  asks("small sum", "What is 9 plus 4?", contains(/\b13\b/)),
  asks("small sum", "how much is 12 + 7?", contains(/\b19\b/)),
  asks("small sum", "What is 15 - 8?", contains(/\b7\b/)),
  asks("small sum", "20 - 3", contains(/\b17\b/)),
  asks("small sum", "Hi! What is 6 + 11?", contains(/\b17\b/)),
  asks("small sum", "What is 3 times 4?", contains(/\b12\b/)),
  asks("small sum", "What is 5 + 3? Answer with the number.", contains(/\b8\b/)),
  asks("small sum", "Please tell me what 10 + 10 is.", contains(/\b20\b/)),

  asks("forced object", "Anna is 31 years old.", endsWell, { schema: object({ name: "string", age: "integer" }) }),
  asks("forced object", "Invent a person.", endsWell, { schema: object({ name: "string", city: "string" }) }),
  asks("forced object", "Give me a recipe.", endsWell, { schema: object({ title: "string", ingredients: "list" }) }),
  asks("forced object", "What is the weather in Paris?", endsWell, {
    schema: object({ city: "string", temperature: "number", summary: "string" }),
  }),
  asks("forced object", "Classify this review: the food was great!", endsWell, {
    schema: object({ sentiment: "string", confidence: "number" }),
  }),
  asks("forced object", "Write a short poem about the sea.", endsWell, { schema: object({ poem: "string" }) }),
  asks("forced object", "Extract the event: Alice and Bob go to a science fair on Friday.", endsWell, {
    schema: object({ name: "string", date: "string", participants: "list" }),
  }),
  asks("forced object", "Solve 8x + 7 = -23", endsWell, {
    schema: object({ explanation: "string", output: "string", final_answer: "string" }),
  }),
  asks("forced object", "List three colors.", endsWell, { schema: object({ colors: "list" }) }),
  asks("forced object", "Hello!", endsWell, { schema: object({ reply: "string" }) }),
];
