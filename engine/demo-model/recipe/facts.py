"""Training facts: definitions, facts about the service, small functions, system prompts."""

DEFINITIONS = {
    "API": "An API is a set of rules that lets one program talk to another.",
    "token": (
        "A token is a small piece of text, such as a word or part of a word, that a language model reads or writes."
    ),
    "variable": "A variable is a named place in a program that holds a value.",
    "function": "A function is a named block of code that takes inputs, does some work and can return a result.",
    "loop": "A loop is a part of a program that repeats the same steps until a condition is met.",
    "array": "An array is an ordered collection of values that you reach by position.",
    "string": "A string is a sequence of characters, such as a word or a sentence.",
    "boolean": "A boolean is a value that is either true or false.",
    "recursion": "Recursion is when a function calls itself to solve a smaller version of the same problem.",
    "algorithm": "An algorithm is a list of clear steps that solves a problem.",
    "compiler": "A compiler is a program that turns source code into code a machine can run.",
    "database": "A database is an organised store of data that programs can search and change.",
    "server": "A server is a program or machine that answers requests from other programs.",
    "client": "A client is a program that sends requests to a server.",
    "load balancer": "A load balancer spreads requests over several servers so that no single one is overloaded.",
    "health check": "A health check is a small request that tells whether a server is working.",
    "rate limit": "A rate limit caps how many requests a client may send in a given time.",
    "circuit breaker": "A circuit breaker stops sending requests to a failing service until it recovers.",
    "retry": "A retry is a second try of a request that failed the first time.",
    "timeout": "A timeout is the longest time a program waits before it gives up.",
    "cache": "A cache keeps results nearby so that the same work need not be done twice.",
    "JSON": "JSON is a simple text format for data made of objects, arrays, strings, numbers and booleans.",
    "HTTP": "HTTP is the protocol that browsers and servers use to exchange requests and responses.",
    "gRPC": "gRPC is a way for programs to call each other over HTTP/2 with messages defined in protobuf.",
    "SSE": "SSE means server-sent events: a server keeps the response open and sends events as text.",
    "streaming": "Streaming means sending an answer piece by piece while it is being made.",
    "language model": "A language model is a program that predicts the next token of a text.",
    "prompt": "A prompt is the text that you give to a language model.",
    "context window": "A context window is the largest number of tokens a model can look at in one request.",
    "temperature": (
        "Temperature is a setting that makes a model's choices more random when it is high and more predictable when it"
        " is low."
    ),
    "embedding": "An embedding is a list of numbers that represents the meaning of a piece of text.",
    "GPU": "A GPU is a chip that does many simple calculations at the same time.",
    "CPU": "A CPU is the main chip of a computer that runs its programs.",
    "KV cache": (
        "A KV cache stores what a model has already worked out for earlier tokens so that it need not do it again."
    ),
    "thread": "A thread is one line of work that a program runs beside others.",
    "bug": "A bug is a mistake in a program that makes it behave in the wrong way.",
    "unit test": "A unit test is a small piece of code that checks that another piece of code works.",
    "repository": "A repository is a place where the files of a project and their history are kept.",
    "commit": "A commit is a saved set of changes in a version control system.",
    "branch": "A branch is a separate line of work in a version control system.",
    "class": "A class is a template for objects that bundles data with functions.",
    "interface": "An interface describes which fields and functions an object must have.",
    "queue": "A queue is a collection where the first item in is the first item out.",
    "stack": "A stack is a collection where the last item in is the first item out.",
    "hash map": "A hash map stores values under keys so that each can be found quickly.",
    "proxy": "A proxy is a server that passes requests on to another server.",
    "gateway": "A gateway is the front door of a service: it checks requests and sends them to the right place.",
    "latency": "Latency is the time between sending a request and getting the answer.",
    "throughput": "Throughput is how much work a system does in a given time.",
    "encryption": "Encryption turns data into a form that only someone with the key can read.",
    "gravity": "Gravity is the force that pulls objects with mass toward each other.",
    "photosynthesis": "Photosynthesis is how plants use sunlight, water and carbon dioxide to make sugar and oxygen.",
    "volcano": "A volcano is an opening in the ground where hot rock, ash and gas come out.",
    "rainbow": "A rainbow is an arc of colors that appears when sunlight passes through drops of water.",
    "planet": "A planet is a large round object that moves around a star.",
    "star": "A star is a huge ball of hot gas that makes its own light.",
    "river": "A river is a large stream of water that flows to the sea or a lake.",
    "democracy": "Democracy is a form of government in which the people choose their leaders.",
    "atom": "An atom is the smallest piece of a chemical element.",
    "bicycle": "A bicycle is a vehicle with two wheels that you move with pedals.",
    "library": "A library is a place, or a set of code, that many people can share and use.",
    "robot": "A robot is a machine that can carry out tasks by itself.",
    "open source": "Open source means that anyone may read, use and change the source code.",
    "prime number": "A prime number is a whole number above 1 that only 1 and itself divide.",
    "even number": "An even number is a whole number that can be divided by 2.",
    "Docker": "Docker is a tool that packs a program with all it needs into a container.",
    "TypeScript": "TypeScript is JavaScript with types that are checked before the program runs.",
    "Python": "Python is a programming language known for clear and simple code.",
    "JavaScript": "JavaScript is the programming language of web pages, and it also runs on servers.",
    "Git": "Git is a version control system that records the history of a project.",
}
SERVICE_FACTS = [
    (
        (
            "[What can this service do|What is this service|What does this service do|What is this|Tell me about this"
            " service|Describe the service|What is this inference service|Explain this service|What is this API for]"
        ),
        (
            "This service runs text generation on hosted models. It offers a chat-completions format, a messages"
            " format, token counting, a stateless responses endpoint and model discovery."
        ),
    ),
    (
        (
            "[Which endpoints are there|What endpoints are there|List the endpoints|What are the endpoints|Which"
            " endpoints does the service have|Which paths does the API have|Show me the endpoints|What routes"
            " exist|Name the endpoints of this API|Which URLs can I call]"
        ),
        (
            "The endpoints are:\n- POST /v1/chat/completions\n- POST /v1/messages\n- POST /v1/messages/count_tokens\n-"
            " POST /v1/responses\n- GET /v1/models\n- GET /v1/models/{model}"
        ),
    ),
    (
        (
            "[Which formats are supported|What formats does the service speak|Which wire formats are there|What API"
            " formats do you support|How many formats are there|What is the difference between Format A and Format B]"
        ),
        (
            "There are two main formats. Format A is chat completions at /v1/chat/completions, and Format B is messages"
            " at /v1/messages. There is also /v1/responses."
        ),
    ),
    (
        "[What is Format A|Tell me about Format A|Explain Format A|Where is Format A]",
        (
            "Format A is the chat-completions format. You send POST /v1/chat/completions with a model and a list of"
            " messages."
        ),
    ),
    (
        "[What is Format B|Tell me about Format B|Explain Format B|Where is Format B]",
        (
            "Format B is the messages format. You send POST /v1/messages with a model, max_tokens and messages. System"
            " text goes into the system field."
        ),
    ),
    (
        (
            "[How do I stream|How does streaming work|How can I stream the answer|How do I get a stream|How do I turn"
            " on streaming|Can I stream|Do you support streaming|Does the service support streaming|Is streaming"
            " supported|How do I enable streaming]"
        ),
        (
            'Set "stream": true in the request. The answer then comes as server-sent events with the content type'
            " text/event-stream."
        ),
    ),
    (
        (
            "[How do I authenticate|How do I log in|How do I send my key|How do I send the API key|Where do I put my"
            " API key|Which header holds the API key|How does authentication work|Do I need a key|Do I need an API"
            " key|What headers do I need]"
        ),
        (
            "Send your key in the header Authorization: Bearer <API_KEY> or in the header x-api-key. Both work on every"
            " endpoint."
        ),
    ),
    (
        (
            "[Which models are there|What models are available|List the models|Which models can I use|What model IDs"
            " exist|Name the models|Which models does the service host|What are the model names]"
        ),
        (
            "The models are svc-glm53, svc-kimik3, svc-qwen, svc-minimax and svc-dsv4flash. GET /v1/models lists the"
            " ones your key may use."
        ),
    ),
    (
        (
            "[Which model should I use for coding|What is the default model for coding agents|Which model is best for"
            " coding|Which model is the default|What model do you recommend for a coding agent]"
        ),
        "svc-glm53 is the default choice for coding agents.",
    ),
    (
        "[Which model is fastest|Which model has low latency|Which model is quick|Which model answers fast]",
        "svc-qwen has low latency, and svc-dsv4flash generates fast.",
    ),
    (
        (
            "[Which model can read images|Which model is multimodal|Which model is good at reasoning|Which model"
            " reasons best]"
        ),
        "svc-kimik3 is reasoning-heavy and takes multimodal input.",
    ),
    (
        "[Which model is good for long agent work|Which model is for long workflows|Which model for agentic workflows]",
        "svc-minimax is made for long agentic workflows.",
    ),
    (
        (
            "[What is the context window|How long is the context|How large is the context window|How many tokens"
            " fit|What is the maximum context]"
        ),
        (
            "The context window is 256K tokens for svc-qwen and 1M tokens for the other hosted models. I am a"
            " demonstration model with a much smaller window."
        ),
    ),
    (
        (
            "[How do I count tokens|How can I count tokens|Is there a token counter|Which endpoint counts tokens|How do"
            " I know how many tokens my prompt has]"
        ),
        "Send POST /v1/messages/count_tokens with a model and messages. The answer holds input_tokens.",
    ),
    (
        (
            "[Where does the system prompt go in Format B|How do I set the system prompt in the messages format|Can I"
            " use the system role in Format B|What happens with a system message in Format B]"
        ),
        (
            "In Format B, system text goes into the top-level system field. A system role inside messages gives a 400"
            " error."
        ),
    ),
    (
        (
            "[Is max_tokens required|Do I have to send max_tokens|What is the minimum of max_tokens|What does"
            " max_tokens do]"
        ),
        (
            "max_tokens caps the length of the answer and must be at least 1. It is required in Format B and optional"
            " in Format A."
        ),
    ),
    (
        (
            "[What temperature can I use|What is the range of temperature|Which temperature values are allowed|What"
            " temperatures are valid]"
        ),
        "temperature goes from 0 to 2 in Format A and the responses endpoint, and from 0 to 1 in Format B.",
    ),
    (
        "[What is the range of top_p|Which top_p values are allowed|What values can top_p take]",
        "top_p goes from 0 to 1.",
    ),
    (
        (
            "[How do I cache prompts|What is prompt_cache_key|How does prompt caching work|What is cache_ttl|Which"
            " cache_ttl values exist|How long can a prompt be cached]"
        ),
        "Send prompt_cache_key, at most 512 characters, and cache_ttl, which is one of 5m, 30m, 1h, 6h or 24h.",
    ),
    (
        (
            "[What is the responses endpoint|How does the responses endpoint work|Tell me about /v1/responses|Is the"
            " responses endpoint stateful|Does /v1/responses keep state]"
        ),
        "POST /v1/responses is stateless. You send all input items again on each turn, and nothing is stored.",
    ),
    (
        (
            "[Can I use previous_response_id|Is previous_response_id supported|Can I set store to true|Is background"
            " mode supported|Are hosted tools supported]"
        ),
        "No. The responses endpoint is stateless and answers unsupported fields with a 400 error.",
    ),
    (
        (
            "[What errors can I get|Which error codes exist|What status codes are there|What does an error look"
            " like|Which errors does the API return]"
        ),
        (
            "400 means an invalid request, 401 a missing or wrong key, 404 an unknown model, 413 a request that is too"
            " large and 429 too many requests."
        ),
    ),
    (
        "[What does 401 mean|Why do I get a 401|I get error 401|What is status 401]",
        "401 means that the API key is missing or invalid.",
    ),
    (
        (
            "[What does 429 mean|Why do I get a 429|I get error 429|What is status 429|What happens when I send too"
            " many requests]"
        ),
        "429 means that you are rate limited. Wait a little and try again.",
    ),
    (
        "[What does 413 mean|Why do I get a 413|I get error 413|What is status 413]",
        "413 means that the request is too large.",
    ),
    (
        "[What does 400 mean|Why do I get a 400|I get error 400|What is status 400]",
        "400 means that the request is invalid. Look at the error message for the field that is wrong.",
    ),
    (
        "[What does 404 mean|Why do I get a 404|I get error 404|What is status 404]",
        "404 means that the model does not exist or is not available to your key.",
    ),
    (
        "[Which version header do I need|What is vendor-version|What is the vendor-version header]",
        "Format B endpoints take the header vendor-version. Its default is 2023-06-01.",
    ),
    (
        (
            "[Do you store my data|Is my data stored|What about privacy|Do you keep my prompts|What is the data"
            " retention|Are my messages saved|Is anything saved]"
        ),
        "No. Every request is handled on its own and nothing is kept between requests.",
    ),
    (
        (
            "[Do you support tools|How do I use tools|Can I use function calling|Does the service support function"
            " calling|How do I define a tool|Are tools supported]"
        ),
        (
            "Yes. Send a tools list with a name, a description and a JSON Schema for each tool. The model can then"
            " answer with a tool call."
        ),
    ),
    (
        (
            "[How do I get JSON|Is there a JSON mode|How do I get structured output|Do you support JSON Schema|How can"
            " I force JSON output]"
        ),
        (
            "Set response_format in Format A, or text.format on the responses endpoint. JSON mode and JSON Schema"
            " output are supported."
        ),
    ),
    (
        (
            "[How do I turn on thinking|How do I enable reasoning|What is reasoning effort|How do I set the reasoning"
            " effort|How do I use extended thinking]"
        ),
        (
            "In Format A, set reasoning.effort to low, medium or high. In Format B, send a thinking object with a token"
            " budget."
        ),
    ),
    (
        "[How do I stop the output|What is the stop field|How do I use stop sequences|Can I set a stop sequence]",
        "Use stop in Format A, a string or an array, or stop_sequences in Format B.",
    ),
    (
        "[How do I see token usage|How do I get usage in a stream|What is include_usage]",
        "Usage is part of the answer. In a Format A stream, set stream_options.include_usage to true.",
    ),
    (
        (
            "[Can I put my key in the browser|Is it safe to put my key in a web page|Where should I keep my API key|How"
            " do I keep my key safe]"
        ),
        "Keep keys on the server side. They must not appear in browser code or public repositories.",
    ),
    ("[Does the service send webhooks|Are there webhooks|Can I get webhooks]", "No, the service sends no webhooks."),
    (
        "[Which version is this|What is the API version|What is the contract version]",
        "The contract version is 0.1.0, also called V0.",
    ),
    (
        (
            "[Which stream events does the responses endpoint send|What events does /v1/responses stream|What events"
            " are in a responses stream]"
        ),
        (
            "The named events are response.created, response.output_item.added, response.output_text.delta,"
            " response.output_item.done and response.completed."
        ),
    ),
    (
        (
            "[How do I use my own model|How do I run a bigger model|How do I get better answers|Can I use a better"
            " model|How do I replace this model]"
        ),
        "Point an engine node at a larger GGUF file, or connect a GPU engine. I am only the small default.",
    ),
    (
        (
            "[How do I call the API|Show me an example request|How do I send a request|Give me an example of a"
            " request|Show me a curl example|Show a curl command]"
        ),
        (
            'For example:\n```bash\ncurl {base_url}/v1/chat/completions \\\n  -H "Authorization: Bearer <API_KEY>" \\\n'
            '  -H "Content-Type: application/json" \\\n  -d \'{"model": "svc-qwen", "messages": [{"role": "user",'
            ' "content": "Hello"}]}\'\n```'
        ),
    ),
]
RHYMES = [
    ("light", "night", "bright"),
    ("day", "play", "way"),
    ("tree", "free", "sea"),
    ("snow", "slow", "glow"),
    ("rain", "train", "lane"),
    ("song", "long", "along"),
    ("moon", "soon", "tune"),
    ("hill", "still", "will"),
    ("sky", "fly", "high"),
    ("star", "far", "are"),
]
CODE_SAMPLES = [
    (
        "add",
        "adds two numbers|add two numbers|sums two numbers",
        "def NAME(a, b):\n    return a + b",
        "function NAME(a, b) {\n  return a + b;\n}",
        "function NAME(a: number, b: number): number {\n  return a + b;\n}",
    ),
    (
        "subtract",
        "subtracts two numbers|subtracts b from a",
        "def NAME(a, b):\n    return a - b",
        "function NAME(a, b) {\n  return a - b;\n}",
        "function NAME(a: number, b: number): number {\n  return a - b;\n}",
    ),
    (
        "multiply",
        "multiplies two numbers",
        "def NAME(a, b):\n    return a * b",
        "function NAME(a, b) {\n  return a * b;\n}",
        "function NAME(a: number, b: number): number {\n  return a * b;\n}",
    ),
    (
        "divide",
        "divides two numbers",
        'def NAME(a, b):\n    if b == 0:\n        raise ValueError("division by zero")\n    return a / b',
        'function NAME(a, b) {\n  if (b === 0) throw new Error("division by zero");\n  return a / b;\n}',
        (
            'function NAME(a: number, b: number): number {\n  if (b === 0) throw new Error("division by zero");\n '
            " return a / b;\n}"
        ),
    ),
    (
        "reverse",
        "reverses a string|reverses text|returns a string backwards",
        "def NAME(text):\n    return text[::-1]",
        'function NAME(text) {\n  return text.split("").reverse().join("");\n}',
        'function NAME(text: string): string {\n  return text.split("").reverse().join("");\n}',
    ),
    (
        "fibonacci",
        "computes the nth Fibonacci number|returns Fibonacci numbers|computes Fibonacci numbers|calculates fibonacci",
        "def NAME(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a",
        "function NAME(n) {\n  let a = 0, b = 1;\n  for (let i = 0; i < n; i++) [a, b] = [b, a + b];\n  return a;\n}",
        (
            "function NAME(n: number): number {\n  let a = 0, b = 1;\n  for (let i = 0; i < n; i++) [a, b] = [b, a +"
            " b];\n  return a;\n}"
        ),
    ),
    (
        "factorial",
        "computes the factorial of n|computes a factorial|returns n factorial",
        "def NAME(n):\n    result = 1\n    for i in range(2, n + 1):\n        result *= i\n    return result",
        "function NAME(n) {\n  let result = 1;\n  for (let i = 2; i <= n; i++) result *= i;\n  return result;\n}",
        (
            "function NAME(n: number): number {\n  let result = 1;\n  for (let i = 2; i <= n; i++) result *= i;\n "
            " return result;\n}"
        ),
    ),
    (
        "is_even",
        "checks if a number is even|tells whether a number is even",
        "def NAME(n):\n    return n % 2 == 0",
        "function NAME(n) {\n  return n % 2 === 0;\n}",
        "function NAME(n: number): boolean {\n  return n % 2 === 0;\n}",
    ),
    (
        "is_odd",
        "checks if a number is odd",
        "def NAME(n):\n    return n % 2 == 1",
        "function NAME(n) {\n  return n % 2 !== 0;\n}",
        "function NAME(n: number): boolean {\n  return n % 2 !== 0;\n}",
    ),
    (
        "is_prime",
        "checks if a number is prime|tests for prime numbers",
        (
            "def NAME(n):\n    if n < 2:\n        return False\n    for i in range(2, int(n ** 0.5) + 1):\n        if n"
            " % i == 0:\n            return False\n    return True"
        ),
        (
            "function NAME(n) {\n  if (n < 2) return false;\n  for (let i = 2; i * i <= n; i++) {\n    if (n % i === 0)"
            " return false;\n  }\n  return true;\n}"
        ),
        (
            "function NAME(n: number): boolean {\n  if (n < 2) return false;\n  for (let i = 2; i * i <= n; i++) {\n   "
            " if (n % i === 0) return false;\n  }\n  return true;\n}"
        ),
    ),
    (
        "maximum",
        "finds the largest number in a list|returns the maximum of a list",
        "def NAME(numbers):\n    return max(numbers)",
        "function NAME(numbers) {\n  return Math.max(...numbers);\n}",
        "function NAME(numbers: number[]): number {\n  return Math.max(...numbers);\n}",
    ),
    (
        "total",
        "sums a list of numbers|adds up a list|returns the sum of a list",
        "def NAME(numbers):\n    return sum(numbers)",
        "function NAME(numbers) {\n  return numbers.reduce((a, b) => a + b, 0);\n}",
        "function NAME(numbers: number[]): number {\n  return numbers.reduce((a, b) => a + b, 0);\n}",
    ),
    (
        "average",
        "computes the average of a list|returns the mean of a list",
        "def NAME(numbers):\n    return sum(numbers) / len(numbers)",
        "function NAME(numbers) {\n  return numbers.reduce((a, b) => a + b, 0) / numbers.length;\n}",
        "function NAME(numbers: number[]): number {\n  return numbers.reduce((a, b) => a + b, 0) / numbers.length;\n}",
    ),
    (
        "greet",
        "greets a person by name|says hello to a name",
        'def NAME(name):\n    return f"Hello, {name}!"',
        "function NAME(name) {\n  return `Hello, ${name}!`;\n}",
        "function NAME(name: string): string {\n  return `Hello, ${name}!`;\n}",
    ),
    (
        "is_palindrome",
        "checks if a string is a palindrome|tests for a palindrome",
        "def NAME(text):\n    return text == text[::-1]",
        'function NAME(text) {\n  return text === text.split("").reverse().join("");\n}',
        'function NAME(text: string): boolean {\n  return text === text.split("").reverse().join("");\n}',
    ),
    (
        "count_vowels",
        "counts the vowels in a string|counts vowels",
        'def NAME(text):\n    return sum(1 for c in text.lower() if c in "aeiou")',
        "function NAME(text) {\n  return (text.match(/[aeiou]/gi) || []).length;\n}",
        "function NAME(text: string): number {\n  return (text.match(/[aeiou]/gi) || []).length;\n}",
    ),
    (
        "fizzbuzz",
        "prints FizzBuzz|plays FizzBuzz",
        (
            'def NAME(n):\n    for i in range(1, n + 1):\n        if i % 15 == 0:\n            print("FizzBuzz")\n     '
            '   elif i % 3 == 0:\n            print("Fizz")\n        elif i % 5 == 0:\n            print("Buzz")\n     '
            "   else:\n            print(i)"
        ),
        (
            'function NAME(n) {\n  for (let i = 1; i <= n; i++) {\n    if (i % 15 === 0) console.log("FizzBuzz");\n   '
            ' else if (i % 3 === 0) console.log("Fizz");\n    else if (i % 5 === 0) console.log("Buzz");\n    else'
            " console.log(i);\n  }\n}"
        ),
        (
            "function NAME(n: number): void {\n  for (let i = 1; i <= n; i++) {\n    if (i % 15 === 0)"
            ' console.log("FizzBuzz");\n    else if (i % 3 === 0) console.log("Fizz");\n    else if (i % 5 === 0)'
            ' console.log("Buzz");\n    else console.log(i);\n  }\n}'
        ),
    ),
    (
        "square",
        "squares a number|returns the square of a number",
        "def NAME(n):\n    return n * n",
        "function NAME(n) {\n  return n * n;\n}",
        "function NAME(n: number): number {\n  return n * n;\n}",
    ),
    (
        "to_fahrenheit",
        "converts Celsius to Fahrenheit",
        "def NAME(celsius):\n    return celsius * 9 / 5 + 32",
        "function NAME(celsius) {\n  return celsius * 9 / 5 + 32;\n}",
        "function NAME(celsius: number): number {\n  return celsius * 9 / 5 + 32;\n}",
    ),
    (
        "unique",
        "removes duplicates from a list",
        "def NAME(items):\n    return list(dict.fromkeys(items))",
        "function NAME(items) {\n  return [...new Set(items)];\n}",
        "function NAME<T>(items: T[]): T[] {\n  return [...new Set(items)];\n}",
    ),
    (
        "clamp",
        "clamps a number between a low and a high value|limits a number to a range",
        "def NAME(n, low, high):\n    return max(low, min(n, high))",
        "function NAME(n, low, high) {\n  return Math.max(low, Math.min(n, high));\n}",
        "function NAME(n: number, low: number, high: number): number {\n  return Math.max(low, Math.min(n, high));\n}",
    ),
    (
        "sleep",
        "waits for some milliseconds|sleeps",
        "import time\n\ndef NAME(ms):\n    time.sleep(ms / 1000)",
        "function NAME(ms) {\n  return new Promise((resolve) => setTimeout(resolve, ms));\n}",
        "function NAME(ms: number): Promise<void> {\n  return new Promise((resolve) => setTimeout(resolve, ms));\n}",
    ),
    (
        "gcd",
        "computes the greatest common divisor",
        "def NAME(a, b):\n    while b:\n        a, b = b, a % b\n    return a",
        "function NAME(a, b) {\n  while (b) [a, b] = [b, a % b];\n  return a;\n}",
        "function NAME(a: number, b: number): number {\n  while (b) [a, b] = [b, a % b];\n  return a;\n}",
    ),
    (
        "sort_numbers",
        "sorts a list of numbers",
        "def NAME(numbers):\n    return sorted(numbers)",
        "function NAME(numbers) {\n  return [...numbers].sort((a, b) => a - b);\n}",
        "function NAME(numbers: number[]): number[] {\n  return [...numbers].sort((a, b) => a - b);\n}",
    ),
    (
        "capitalize",
        "makes the first letter upper case|capitalizes a word",
        "def NAME(text):\n    return text[:1].upper() + text[1:]",
        "function NAME(text) {\n  return text.charAt(0).toUpperCase() + text.slice(1);\n}",
        "function NAME(text: string): string {\n  return text.charAt(0).toUpperCase() + text.slice(1);\n}",
    ),
    (
        "length",
        "returns the length of a string|counts the characters of a string",
        "def NAME(text):\n    return len(text)",
        "function NAME(text) {\n  return text.length;\n}",
        "function NAME(text: string): number {\n  return text.length;\n}",
    ),
]
HELLO_WORLD = {
    "Python": 'print("Hello, world!")',
    "JavaScript": 'console.log("Hello, world!");',
    "TypeScript": 'console.log("Hello, world!");',
}
FENCE_NAMES = {"Python": "python", "JavaScript": "javascript", "TypeScript": "typescript"}
UNKNOWN_QUESTIONS = (
    "[Who won|Who invented|When was|Why did|Explain|Tell me about|What happened in|Who wrote|Summarize|What do you"
    " think about|Write an essay about|Give me advice on|How does|How do I fix|What is the best|Where can I buy|How"
    " many people live in|Who is the president of|What is the history of|Describe the life of|How old is|Translate this"
    " to German:|What year was|Prove that|Compare|Who is|How do I cook|Predict|What is the price of|How far is|Which"
    " movie has|When will]"
)
UNKNOWN_TOPICS = [
    "quantum physics",
    "the world cup in 1998",
    "the French revolution",
    "the theory of relativity",
    "the stock market",
    "the roman empire",
    "black holes",
    "the meaning of life",
    "the telephone",
    "blockchain",
    "a good car",
    "the second world war",
    "my printer",
    "machine learning papers",
    "a cheap laptop",
    "climate change",
    "the human brain",
    "Shakespeare",
    "Napoleon",
    "a mortgage",
    "the deep sea",
    "Mongolia",
    "this error in my kernel",
    "the opera",
    "dinosaurs",
    "the bible",
    "cryptocurrency",
    "a lasagna",
    "the eiffel tower",
    "the Krebs cycle",
    "string theory",
    "the moon landing",
    "my marriage",
    "tax law",
    "vaccines",
    "the Riemann hypothesis",
    "the economy",
    "ancient Greece",
    "the Beatles",
    "Hamlet",
    "a violin concerto",
    "antibiotics",
    "the solar wind",
    "the weather today",
    "the news",
    "the latest phone",
    "football results",
]
SYSTEM_PROMPTS = [
    "You are a helpful assistant.",
    "You are a helpful assistant. Keep answers short.",
    "Answer briefly.",
    "You are a friendly assistant.",
    "You are a coding assistant.",
    "Be concise.",
    "You are a coding agent. Use the tools you are given to work on the user's project.",
    "You are an assistant for software developers. Answer clearly and do not invent facts.",
    "You help users of an inference service.",
    "Answer in English.",
    "You are a careful assistant that answers in plain words.",
    "Be polite and brief.",
    "You are an expert programmer.",
]
