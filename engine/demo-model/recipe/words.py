"""Word lists from which every dialogue is generated."""


def words(text):
    """The words of a text."""
    return text.split()


NAMES = words(
    "Anna Ben Carla David Ella Felix Grace Hugo Iris Jonas Kate Liam Mona Noah Olga Paul Quinn Rosa Sam Tara Umar Vera"
    " Will Xena Yara Zoe Alice Bob Clara Dan Eve Frank Gina Henry Ivy Jack Kim Leo Maria Nina Oscar Petra Ravi Sofia"
    " Tom Ursula Victor Wendy Yusuf Zara Mika Lena Omar Priya Chen Aiko Diego Fatima Ingrid Kofi"
)
CITIES = words(
    "Paris London Berlin Madrid Rome Vienna Oslo Lisbon Dublin Prague Warsaw Athens Cairo Tokyo Delhi Lima Boston"
    " Chicago Denver Seattle Austin Toronto Sydney Nairobi Lagos Zurich Geneva Milan Turin Lyon Porto Krakow Bergen"
    " Ghent Leeds Quito Bogota Hanoi Seoul Osaka Kyoto Dakar Tunis Amman Riga Tallinn Vilnius Helsinki Malmo Bern Basel"
    " Graz"
)
COLORS = words("red blue green yellow purple orange black white brown pink gray teal violet silver gold")
ANIMALS = words(
    "cat dog horse rabbit fox owl bear wolf tiger lion mouse frog snake eagle whale shark panda koala otter goat sheep"
    " cow duck goose swan deer moose zebra camel turtle"
)
FRUITS = words("apple banana cherry grape lemon mango orange peach pear plum kiwi melon fig lime apricot")
VEGETABLES = words("carrot potato onion tomato cabbage spinach broccoli pepper celery lettuce cucumber pumpkin")
PLANETS = words("Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune")
LANGUAGES = words("Python JavaScript TypeScript Rust Go Java Ruby Swift Kotlin C Haskell Lua Perl Scala")
TREES = words("oak pine birch maple willow cedar elm ash beech spruce")
SPORTS = words("football tennis swimming running cycling basketball hockey golf rowing chess volleyball skiing")
HAND_TOOLS = words("hammer saw drill wrench pliers screwdriver chisel level file clamp")
INSTRUMENTS = words("piano guitar violin drums flute trumpet cello harp clarinet organ")
NOUNS = words(
    "weather order user ticket invoice report file event note task photo song book flight hotel train meal recipe price"
    " stock account balance payment device sensor light door camera room booking calendar meeting contact message email"
    " phone address route map traffic package shipment customer product item cart coupon review ranking score game"
    " player team match lesson course student grade exam article post comment tag label project branch commit build"
    " test deploy server cluster node pod log metric alert incident backup snapshot database table row column query"
    " index schema queue job worker timer reminder alarm budget expense salary loan tax currency rate forecast"
    " temperature humidity pressure river bridge tower garden window engine battery ship rocket planet star moon letter"
    " stamp coin ring lamp chair desk bottle basket bicycle parcel menu plant seed farm mill market library museum"
    " theatre station airport harbor"
)
VERBS = words(
    "get fetch find list create make add update set change delete remove cancel send book order check verify search"
    " query lookup count compute calculate convert translate start stop restart open close lock unlock read write save"
    " load copy move rename export import sync show describe compare sort filter merge split schedule assign approve"
    " reject publish archive restore scan print track rate play pause"
)
ADJECTIVES = words(
    "small big old new bright dark quiet loud warm cold fast slow red blue green golden silent happy gentle brave"
    " clever simple wild calm soft hidden early late round sharp"
)
STRING_ARGUMENTS = words(
    "city name title query path id user email color country language date topic label owner street region status"
    " category message subject unit format target source filename branch host key tag room product customer sku code"
    " currency place destination origin model brand team genre author isbn zone channel pattern folder directory"
    " command text phrase keyword nickname vehicle planet material"
)
STRING_ARGUMENTS += [
    "user_id",
    "order_id",
    "file_path",
    "start_date",
    "due_date",
    "first_name",
    "last_name",
    "item_name",
    "ticket_id",
    "userName",
    "orderId",
    "filePath",
    "cityName",
    "search_term",
    "project_id",
    "device_id",
    "customer_name",
    "room_number",
    "access_level",
    "track_code",
]
NUMBER_ARGUMENTS = words(
    "days count limit amount quantity size year age page level port minutes hours seconds width height depth priority"
    " guests seats floor retries number max_results page_size line_number start end total weight speed offset duration"
    " rating"
)
BOOLEAN_ARGUMENTS = words(
    "verbose recursive urgent dry_run force active public private enabled notify metric express silent"
)
ENUM_ARGUMENTS = {
    "unit": words("celsius fahrenheit"),
    "priority_level": words("low medium high"),
    "mode": words("fast slow auto"),
    "format": words("json csv text"),
    "size": words("small medium large"),
    "order": words("asc desc"),
    "status": words("open closed pending"),
}
EXTENSIONS = words("py ts js md txt json yaml toml html css rs go sh csv")
FILE_STEMS = words(
    "main index app server utils config test helper model router parser readme notes data client types setup queue"
    " cache auth store list token stream health limits worker build lexer schema report"
)
FOLDERS = words("src lib test docs scripts app bin config gateway engine proto deploy data tools web api core pkg")
COMMON_WORDS = words(
    "the sun rises over quiet hills and small birds sing near water people walk home when evening comes light falls on"
    " green fields we build good things with care time moves like a river music plays in old houses bread tea cake"
    " paper glass stone wood iron rain snow wind fire cloud leaf root path gate roof wall bell clock boat sail rope"
    " sand shell wave salt honey milk corn rice cup spoon plate knife table window garden school letter number word"
    " story song picture morning night summer winter spring autumn friend mother father child king queen knight castle"
    " dragon forest mountain valley island ocean desert city village road bridge train ship plane engine robot computer"
    " keyboard screen network signal energy magnet planet comet orbit sky star moon"
)
NON_ASCII_WORDS = [
    "café",
    "naïve",
    "über",
    "façade",
    "jalapeño",
    "Zürich",
    "São Paulo",
    "Kraków",
    "Привет",
    "мир",
    "日本",
    "東京",
    "こんにちは",
    "你好",
    "안녕",
    "שלום",
    "مرحبا",
    "Ελλάδα",
    "😀",
    "🚀",
    "🎉",
    "👍",
    "🌍",
    "❤️",
    "✅",
    "→",
    "€5",
    "½",
    "°C",
]
SYLLABLE_STARTS = words("b br c ch cl d dr f fl g gr h j k kr l m n p pl qu r s sh sk sl st t th tr v w x y z")
SYLLABLE_MIDDLES = words("a e i o u ai ea ee oa ou ar er or en in on al el il an ix ex um")
SYLLABLE_ENDS = ["", "", "", "n", "r", "t", "x", "l", "m", "s", "k", "p", "b", "d", "nd", "rk", "st", "ck"]
CAPITALS = dict(
    France="Paris",
    Germany="Berlin",
    Spain="Madrid",
    Italy="Rome",
    Austria="Vienna",
    Norway="Oslo",
    Portugal="Lisbon",
    Ireland="Dublin",
    Poland="Warsaw",
    Greece="Athens",
    Egypt="Cairo",
    Japan="Tokyo",
    India="New Delhi",
    Peru="Lima",
    Canada="Ottawa",
    Australia="Canberra",
    Kenya="Nairobi",
    Sweden="Stockholm",
    Finland="Helsinki",
    Denmark="Copenhagen",
    Belgium="Brussels",
    Switzerland="Bern",
    China="Beijing",
    Brazil="Brasilia",
    Mexico="Mexico City",
    Cuba="Havana",
    Chile="Santiago",
    Turkey="Ankara",
    Hungary="Budapest",
    Netherlands="Amsterdam",
)
CAPITALS["the United Kingdom"] = "London"
CAPITALS["the United States"] = "Washington, D.C."
CAPITALS["South Korea"] = "Seoul"
OPPOSITES = [
    ("hot", "cold"),
    ("big", "small"),
    ("fast", "slow"),
    ("day", "night"),
    ("up", "down"),
    ("left", "right"),
    ("open", "closed"),
    ("happy", "sad"),
    ("light", "dark"),
    ("old", "new"),
    ("wet", "dry"),
    ("early", "late"),
    ("high", "low"),
    ("hard", "soft"),
    ("full", "empty"),
    ("rich", "poor"),
    ("loud", "quiet"),
    ("start", "stop"),
    ("strong", "weak"),
    ("true", "false"),
    ("near", "far"),
    ("push", "pull"),
    ("win", "lose"),
    ("buy", "sell"),
]
DAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = words("January February March April May June July August September October November December")
NUMBER_WORDS = words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen twenty"
)
CATEGORIES = {
    "fruits": FRUITS,
    "vegetables": VEGETABLES,
    "colors": COLORS,
    "animals": ANIMALS,
    "planets": PLANETS,
    "programming languages": LANGUAGES,
    "trees": TREES,
    "sports": SPORTS,
    "tools": HAND_TOOLS,
    "musical instruments": INSTRUMENTS,
    "cities": CITIES[:20],
    "days of the week": DAYS,
    "months": MONTHS,
    "names": NAMES[:30],
}
SUCCESS_WORDS = ["done", "ok", "completed", "success", "accepted", "ready"]
COMMANDS = [
    "npm test",
    "npm install",
    "npm run build",
    "git status",
    "git log",
    "git diff",
    "ls -la",
    "pytest",
    "make",
    "make test",
    "node index.js",
    "python3 main.py",
    "echo hello",
    "pwd",
    "whoami",
    "date",
    "cat package.json",
    "npx vitest run",
    "tsc --noEmit",
    "docker ps",
    "uname -a",
    "df -h",
    "git branch",
    "cargo test",
    "go build ./...",
]
