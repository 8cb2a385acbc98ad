"""Packs dialogues of the last phase: what strangers ask first.

Sums up to 100, weekdays, commands of a shell, queries of SQL, misspelled code, words in other languages, facts that
are often asked for, and the way to a real model where the model has no answer.
"""

from dialogues import dialogue, render
from facts import SYSTEM_PROMPTS, UNKNOWN_TOPICS
from first_answers import FIRST, object_dialogue, pack
from messages import assistant, user
from small_talk import REAL_MODEL, greeting, identity, unknown
from sums import written_sum
from topics import pick_topic
from weak_spots import weak_dialogue
from words import ADJECTIVES, COLORS, DAYS, MONTHS, NAMES, NOUNS

SHELL = [
    ("list [the |all |]files[ in a folder| in a directory|]", "ls -l"),
    ("list hidden files|show hidden files|see all files with hidden ones", "ls -la"),
    ("show the current [folder|directory]|find out which folder I am in|print the working directory", "pwd"),
    ("[change to|go to|enter] [another|a] [folder|directory]|change the directory", "cd FOLDER"),
    ("[make|create|add] a [new |][folder|directory]", "mkdir FOLDER"),
    ("[delete|remove] a [folder|directory]", "rm -r FOLDER"),
    ("[delete|remove] a file", "rm FILE"),
    ("copy a file", "cp FILE COPY"),
    ("copy a [folder|directory]", "cp -r FOLDER COPY"),
    ("[rename|move] a file", "mv OLD NEW"),
    ("[show|print|read|see|view] [a file|the content of a file|a text file]", "cat FILE"),
    ("[show|print|see] the [last lines|end] of a [file|log]", "tail FILE"),
    ("[follow|watch] a log[ file|]", "tail -f FILE"),
    ("[show|print|see] the [first lines|beginning] of a file", "head FILE"),
    ("count [the |]lines [of|in] a file", "wc -l FILE"),
    ("[search for|find|look for] [a word|text] in [files|a folder|all files]|search text in files", "grep -r TEXT ."),
    ("find [a file|files] by name", "find . -name NAME"),
    ("find [large|big] files", "find . -size +100M"),
    ("[show|check|see] [the |][free |]disk space|see how full the disk is", "df -h"),
    ("[show|check|see] the size of a [folder|directory]", "du -sh FOLDER"),
    ("[show|check|see] [the |][free |]memory|see how much memory is free", "free -h"),
    ("[show|list|see] [the |all |]running processes", "ps aux"),
    ("[kill|stop|end] a process", "kill PID"),
    ("make a [script|file] executable|run a script", "chmod +x FILE"),
    ("[change|set] the owner of a file", "chown USER FILE"),
    ("[download|fetch] a file[ from the web|]", "curl -O URL"),
    ("unpack a tar [file|archive]|extract a tar [file|archive]", "tar -xf FILE"),
    ("[pack|compress] a [folder|directory]|make a tar archive", "tar -czf FILE.tar.gz FOLDER"),
    ("unzip a file|unpack a zip file", "unzip FILE"),
    ("find out my ip address|show [the|my] ip address|see my ip", "ip addr"),
    ("[see|show|find] which process uses a port|see open ports|list open ports", "ss -ltnp"),
    ("show [the |]environment variables", "env"),
    ("set an environment variable", "export NAME=VALUE"),
    ("sort the lines of a file", "sort FILE"),
    ("[compare|diff] two files", "diff ONE OTHER"),
    ("connect to [a|another] server", "ssh USER@HOST"),
    ("show the date|print the time", "date"),
    ("clone a [git |]repository", "git clone URL"),
    ("commit [my |]changes", 'git commit -am "MESSAGE"'),
    ("undo [the|my] last commit", "git reset --soft HEAD~1"),
    ("[make|create] a [new |]branch", "git switch -c NAME"),
    ("[see|show] what changed|see my changes", "git diff"),
    ("[push|upload] my commits", "git push"),
]

ENGLISH = {
    "French": "bonjour|bonjour|bonsoir|merci|au revoir|oui|non|s'il vous plaît|bonne nuit|chat|chien|eau|pain|maison|livre|je t'aime",
    "Spanish": "hola|buenos días|buenas tardes|gracias|adiós|sí|no|por favor|buenas noches|gato|perro|agua|pan|casa|libro|te quiero",
    "German": "hallo|guten Morgen|guten Abend|danke|auf Wiedersehen|ja|nein|bitte|gute Nacht|Katze|Hund|Wasser|Brot|Haus|Buch|ich liebe dich",
    "Italian": "ciao|buongiorno|buonasera|grazie|arrivederci|sì|no|per favore|buonanotte|gatto|cane|acqua|pane|casa|libro|ti amo",
}
MEANINGS = (
    "hello|good morning|good evening|thank you|goodbye|yes|no|please|good night|cat|dog|water|bread|house|book|I love you"
).split("|")

FACTS = [
    ("the [tallest|highest] mountain", "Mount Everest is the tallest mountain, at about 8,849 metres."),
    ("the [longest|largest] river", "The Nile and the Amazon are the longest rivers, each about 6,500 kilometres."),
    ("the [largest|biggest] ocean", "The Pacific Ocean is the largest ocean."),
    ("the [largest|biggest] planet", "Jupiter is the largest planet of the solar system."),
    ("the smallest planet", "Mercury is the smallest planet of the solar system."),
    ("the [largest|biggest] country", "Russia is the largest country by area."),
    ("the smallest country", "Vatican City is the smallest country."),
    ("the [largest|biggest] animal", "The blue whale is the largest animal."),
    ("the fastest animal", "The peregrine falcon is the fastest animal; on land it is the cheetah."),
    ("the speed of light", "Light travels at about 300,000 kilometres a second."),
    (
        "the [boiling point of water|temperature at which water boils]",
        "Water boils at 100 degrees Celsius at sea level.",
    ),
    ("the freezing point of water", "Water freezes at 0 degrees Celsius."),
    ("the [formula of water|chemical formula for water]", "Water is H2O: two atoms of hydrogen and one of oxygen."),
    ("the value of pi|pi", "Pi is about 3.14159."),
    ("the square root of 16", "The square root of 16 is 4."),
    ("photosynthesis", "Photosynthesis is how plants make sugar from light, water and carbon dioxide."),
    ("gravity", "Gravity is the force by which masses attract each other."),
    ("the moon", "The moon is the only natural satellite of the Earth."),
    ("the sun", "The sun is the star at the centre of the solar system."),
    ("machine learning", "Machine learning means that a program learns patterns from examples."),
    ("artificial intelligence|AI", "Artificial intelligence is software that does tasks which need thought."),
    ("the internet", "The internet is a worldwide network of computer networks."),
    ("Linux", "Linux is a free operating system kernel, first released in 1991."),
    ("Python", "Python is a programming language that is easy to read."),
    ("SQL", "SQL is the language in which databases are asked."),
    ("Docker", "Docker packs programs into containers that run anywhere."),
    ("Kubernetes", "Kubernetes runs containers on many machines."),
    ("Git", "Git keeps the history of files."),
    ("a GPU", "A GPU is a processor with many small cores, made for graphics and good for models."),
    ("RAM", "RAM is the fast memory in which a computer keeps what it works on."),
]
ASKED = "[What is $t?|What's $t?|what is $t|Tell me about $t.|Can you name $t?|Which is $t?|Do you know $t?|Name $t.]"
OTHER_FACTS = [
    (
        "[Why is the sky blue?|What makes the sky blue?|Why does the sky look blue?]",
        "The air scatters blue light more than red light, so the sky looks blue.",
    ),
    (
        "[Why is grass green?|What makes leaves green?|Why are plants green?]",
        "Plants are green because of chlorophyll, which takes in red and blue light.",
    ),
    (
        "[Who was Albert Einstein?|Who is Einstein?|Tell me about Einstein.|Who was Einstein]",
        "Albert Einstein was a physicist who found the theory of relativity.",
    ),
    (
        "[Who was Isaac Newton?|Tell me about Newton.|Who is Newton?]",
        "Isaac Newton was a physicist who described motion and gravity.",
    ),
    (
        "[Who was Marie Curie?|Tell me about Marie Curie.]",
        "Marie Curie was a physicist and chemist who studied radioactivity.",
    ),
    (
        "[Who was Alan Turing?|Tell me about Alan Turing.|Who is Turing?]",
        "Alan Turing was a mathematician who laid the ground for computers.",
    ),
    ("[Who was Ada Lovelace?|Tell me about Ada Lovelace.]", "Ada Lovelace wrote the first published computer program."),
    (
        "[Who wrote Hamlet?|Who is the author of Hamlet?|Who wrote Macbeth?|Who wrote Romeo and Juliet, please?]",
        "William Shakespeare wrote it.",
    ),
    ("[Who wrote Faust?|Who is the author of Faust?]", "Johann Wolfgang von Goethe wrote it."),
    ("[Who painted the Mona Lisa?|Who made the Mona Lisa?]", "Leonardo da Vinci painted the Mona Lisa."),
    ("[Who made Linux?|Who invented Linux?|Who wrote Linux?]", "Linus Torvalds wrote the first Linux kernel."),
    ("[Who made Python?|Who invented Python?]", "Guido van Rossum made Python."),
    (
        "[Who was the first man on the moon?|Who first walked on the moon?]",
        "Neil Armstrong was the first person on the moon, in 1969.",
    ),
    (
        "[How many continents are there?|Number of continents?|How many continents does the Earth have?]",
        "There are seven continents.",
    ),
    (
        "[How many planets are there?|Number of planets?|How many planets does the solar system have?]",
        "The solar system has eight planets.",
    ),
    (
        "[How many days are in a year?|How many days does a year have?|Days in a year?]",
        "A year has 365 days, a leap year 366.",
    ),
    ("[How many hours are in a day?|How many hours does a day have?]", "A day has 24 hours."),
    ("[How many minutes are in an hour?|How many minutes does an hour have?]", "An hour has 60 minutes."),
    ("[How many seconds are in a minute?|How many seconds does a minute have?]", "A minute has 60 seconds."),
    ("[How many days are in a week?|How many days does a week have?]", "A week has seven days."),
    ("[How many legs does a spider have?|Number of legs of a spider?]", "A spider has eight legs."),
    ("[How many bytes are in a kilobyte?|How big is a kilobyte?]", "A kilobyte has 1,000 bytes, a kibibyte 1,024."),
    ("[How many bits are in a byte?|How many bits does a byte have?]", "A byte has eight bits."),
    (
        "[At what temperature does water boil?|When does water boil?]",
        "Water boils at 100 degrees Celsius at sea level.",
    ),
    ("[When did the second world war end?|When did World War II end?]", "The second world war ended in 1945."),
    ("[Is the Earth round?|Is the earth flat?]", "The Earth is round, almost a ball."),
    (
        "[Is a tomato a fruit?|Is the tomato a fruit or a vegetable?]",
        "A tomato is a fruit, though cooks use it as a vegetable.",
    ),
]
NO_CLOCK = [
    (
        "[What time is it[ now|]?|Do you know the time?|What's the time?|time?|Tell me the time.]",
        "I cannot see a clock, so I do not know the time.",
    ),
    (
        "[What day is it[ today|]?|What is the date[ today|]?|What's today's date?|Which year is it?|What day is today?]",
        "I cannot see a calendar, so I do not know the date.",
    ),
    (
        "[What's the weather[ like|]?|How is the weather[ today|]?|Will it rain?|Is it cold outside?|weather today]",
        "I cannot look up the weather without a tool. Give me a weather tool and I will call it.",
    ),
    (
        "[What is the news?|Any news?|What happened today?|What's new in the world?]",
        "I cannot read the news: I have no connection to the internet.",
    ),
    (
        "[Can you see my files?|Can you search the web?|Can you browse the internet?|Do you have access to the internet?]",
        "No, I only see this conversation. With tools I can call them.",
    ),
]
WHICH_MODEL = (
    "[How do I get a better model?|How can I use a real model?|Which model should I use[ for coding|]?|How do I load my own"
    " model?|How can I run another model?|Can I use my own weights?|How do I change the model?|Why are you so bad?|You are"
    " stupid[!|.]|That is wrong[!|.]|This answer is bad[.|!]|How do I use Llama here?|How do I switch the model?]"
)
OPEN_REQUESTS = (
    "[Write|Draft|Compose] [me |][an email to|a letter to|a speech for|an essay about|a blog post about|a cover letter for|a"
    " paragraph about|a short paragraph about|a story of ten pages about|a report on|a poem of ten lines on] $x[.|]"
    "|[Summarize|Sum up|Shorten|Rewrite|Improve|Proofread] [this|this text|the following|my text]: $s"
    "|[Plan|Design|Build|Make] [me |][a website|an app|a game|a trip|a holiday|a business] [about|for|with] $x[.|]"
    "|[Recommend|Suggest] [me |][a book|a film|a restaurant|a song|a gift] [about|for] $x[.|]"
    "|[What should I|What can I|What do I] [cook|wear|read|watch|do] [today|tonight|tomorrow][?|]"
)
TYPOS = [
    ("pritn", "print"),
    ("prnt", "print"),
    ("pint", "print"),
    ("prinnt", "print"),
    ("consle.log", "console.log"),
    ("console.lgo", "console.log"),
    ("conosle.log", "console.log"),
    ("retrun", "return"),
    ("improt", "import"),
    ("fucntion", "function"),
    ("whlie", "while"),
    ("flaot", "float"),
    ("lenght", "length"),
    ("ture", "true"),
]


def two_digit_sum(dice):
    """Sums up to 100, every pair as likely."""
    if dice.chance(0.62):
        total = dice.integer(0, 100) if dice.chance(0.5) else dice.integer(40, 100)
        left = dice.integer(0, total)
        return written_sum(dice, left, "+", "plus", total - left, total)
    left, right = sorted((dice.integer(0, 100), dice.integer(0, 100)), reverse=True)
    return written_sum(dice, left, "-", "minus", right, left - right)


def weekday(dice):
    """Days and months before and after one another."""
    values, unit = dice.choice([(DAYS, "day"), (DAYS, "day"), (MONTHS, "month")])
    at = dice.integer(0, len(values) - 1)
    one = values[at]
    if dice.chance(0.5):
        question = "[Which|What] $u [comes|is] [after|right after] $d?|What $u follows $d?|What comes after $d?|The $u after $d?|If today is $d, what is tomorrow?"
        other, word = values[(at + 1) % len(values)], "after"
    else:
        question = "[Which|What] $u [comes|is] [before|right before] $d?|What $u precedes $d?|What comes before $d?|The $u before $d?|If today is $d, what was yesterday?"
        other, word = values[at - 1], "before"
    if unit == "month":
        question = question.rsplit("|", 1)[0]
    text = dice.expand(f"[{question}]", u=unit, d=one)
    return dice.careless(text), f"{other} comes {word} {one}.", f"{word.capitalize()} {one}: {other}."


def shell(dice):
    """A command of a shell."""
    wish, command = dice.choice(SHELL)
    wish = dice.expand(f"[{wish}]")
    question = dice.expand(
        "[How do I $w?|How can I $w?|How do I $w in [Linux|a shell|bash|the terminal]?|Which command can I use to $w?|What is"
        " the command to $w?|Command to $w|How to $w[ in Linux|]?|Give me a [shell |bash |]command to $w.|linux $w|Write a"
        " shell command to $w.|I want to $w.|how do you $w]",
        w=wish,
    )
    return dice.careless(question), f"```bash\n{command}\n```", f"The user wants to {wish}. The command is {command}."


def plural(noun):
    """The plural of a noun that is regular."""
    return (
        noun[:-1] + "ies" if noun[-1] == "y" and noun[-2] not in "aeou" else noun + ("es" if noun[-1] in "sxh" else "s")
    )


def sql(dice):
    """A query of SQL on one table."""
    thing = dice.choice(NOUNS) if dice.chance(0.85) else dice.made_up_word(2)
    table = plural(thing)
    column = dice.choice("name price age city date status size score email total color country amount year".split())
    number = dice.integer(1, 100)
    wish, query = dice.choice(
        [
            ("count [the |all |]$t|get the number of $t", "SELECT COUNT(*) FROM $t;"),
            ("count the rows of $t|count the rows in the table $t", "SELECT COUNT(*) FROM $t;"),
            ("[get|list|select|show|find] all $t", "SELECT * FROM $t;"),
            ("[get|select|show|list] the $c of all $t|[get|select] the $c of $t", "SELECT $c FROM $t;"),
            ("[get|find|select|list] $t with $c above $n", "SELECT * FROM $t WHERE $c > $n;"),
            ("[get|find|select|list] $t with $c below $n", "SELECT * FROM $t WHERE $c < $n;"),
            ("sort $t by $c|[get|list|show] $t sorted by $c", "SELECT * FROM $t ORDER BY $c;"),
            ("[get|show|list] the first $n $t", "SELECT * FROM $t LIMIT $n;"),
            ("[get|compute|find] the average $c of $t", "SELECT AVG($c) FROM $t;"),
            ("[get|compute|find] the [sum|total] of $c of $t|sum the $c of $t", "SELECT SUM($c) FROM $t;"),
            ("[get|find] the [highest|largest] $c of $t", "SELECT MAX($c) FROM $t;"),
            ("[get|find] the [lowest|smallest] $c of $t", "SELECT MIN($c) FROM $t;"),
            ("count $t by $c|count $t per $c", "SELECT $c, COUNT(*) FROM $t GROUP BY $c;"),
            ("[delete|remove] all $t", "DELETE FROM $t;"),
            ("[delete|remove] the $k with id $n", "DELETE FROM $t WHERE id = $n;"),
            ("[get|find|select] the $k with id $n", "SELECT * FROM $t WHERE id = $n;"),
            ("[get|find|list] the [different|distinct] $c of $t", "SELECT DISTINCT $c FROM $t;"),
            ("[create|make] a table [of|for] $t with $c", "CREATE TABLE $t (id INTEGER PRIMARY KEY, $c TEXT);"),
        ]
    )
    slots = {"t": table, "k": thing, "c": column, "n": number}
    wish = dice.expand(f"[{wish}]", **slots)
    question = dice.expand(
        "[Write [a|an] SQL [query|statement] to $w[.|]|Write SQL to $w[.|]|Give me SQL to $w[.|]|SQL to $w|How do I $w in"
        " SQL?|SQL query to $w|Which query can I use to $w?|Can you write a query to $w?|I need a SQL query to $w[.|]]",
        w=wish,
    )
    return dice.careless(question), f"```sql\n{dice.expand(query, **slots)}\n```", f"A query to {wish}."


def fixing(dice):
    """Code with one misspelled word."""
    wrong, right = dice.choice(TYPOS)
    name, value = dice.choice(NOUNS), dice.choice([dice.word(), dice.choice(NAMES), dice.choice(COLORS)])
    number = dice.integer(0, 99)
    code = {
        "print": dice.choice([f"X('{value}')", f'X("{value}")', f"X({name})", f"X({number})"]),
        "console.log": dice.choice([f'X("{value}")', f"X('{value}');", f"X({name});"]),
        "return": dice.choice([f"X {name}", f"X {name};", f"X {number}"]),
        "import": dice.choice(["X os", "X json", f"X {name}"]),
        "function": f"X {name}() {{ return {number}; }}",
        "while": f"X ({name}) {{ }}",
        "float": f"X({name})",
        "length": f"{name}.X",
        "true": f"const {name} = X;",
    }[right]
    question = dice.expand(
        "[Fix this code|Fix this|Correct this code|What is wrong here|What is wrong with this code|Repair this code|fix the"
        " bug|Find the bug|Debug this|Fix my code][: |:\n| - ]"
    )
    fixed = code.replace("X", right)
    return (
        question + code.replace("X", wrong),
        f"{right} is misspelled:\n```\n{fixed}\n```",
        f"{wrong} should be {right}.",
    )


def translation(dice):
    """A word or a greeting in another language."""
    language = dice.choice(list(ENGLISH))
    at = dice.integer(0, len(MEANINGS) - 1)
    meaning, word = MEANINGS[at], ENGLISH[language].split("|")[at]
    quote = dice.choice(["'", '"', ""])
    question = dice.expand(
        "[Translate $q to $l[.|]|Translate $q into $l[.|]|What is $q in $l?|How do you say $q in $l?|$q in $l|Say $q in"
        " $l.|How do I say $q in $l?|What's the $l word for $q?]",
        q=quote + meaning + quote,
        l=language,
    )
    if dice.chance(0.12):
        rare = dice.choice(["Japanese", "Chinese", "Finnish", "Polish", "Turkish", "Arabic", "Greek", "Swahili"])
        return (
            question.replace(language, rare),
            f"I do not know enough {rare}. {REAL_MODEL}",
            "I do not know this language.",
        )
    return (
        question,
        f"{meaning[0].upper() + meaning[1:]} is {word} in {language}.",
        f"{meaning} is {word} in {language}.",
    )


def fact(dice):
    """A fact that is often asked for."""
    if dice.chance(0.5):
        topic, answer = dice.choice(FACTS)
        question = dice.expand(ASKED, t=dice.expand(f"[{topic}]"))
    else:
        question, answer = dice.choice(OTHER_FACTS + NO_CLOCK * 2)
        question = dice.expand(question)
    return dice.careless(question), answer, "I know this."


def beyond(dice):
    """Requests for a real model."""
    kind = dice.random.random()
    if kind < 0.25:
        answer = (
            "Start the service with --model and the path of a GGUF file: npm start -- --model FILE. I am only a small"
            " demonstration model."
        )
        return dice.careless(dice.expand(WHICH_MODEL)), answer, "The user wants a better model."
    if kind < 0.6:
        topic = dice.choice(
            [*UNKNOWN_TOPICS, f"{dice.choice(ADJECTIVES)} {dice.choice(NOUNS)}", f"my {dice.choice(NOUNS)}"]
        )
        sentence = dice.expand(
            "The $a $n [was|is] $b because [of the $m|$p forgot the $m].",
            a=dice.choice(ADJECTIVES),
            n=dice.choice(NOUNS),
            b=dice.choice(ADJECTIVES),
            m=dice.choice(NOUNS),
            p=dice.choice(NAMES),
        )
        return (
            dice.careless(dice.expand(f"[{OPEN_REQUESTS}]", x=topic, s=sentence)),
            f"That is beyond me. {REAL_MODEL}",
            "That is beyond me.",
        )
    return unknown(dice)


def odd(dice):
    """Greetings with more in them, and input without a meaning."""
    if dice.chance(0.4):
        text = dice.choice(
            [
                dice.made_up_word(3).lower(),
                "?",
                "...",
                "asdf",
                "test test",
                "foo",
                "lol",
                "ok",
                "hm",
                "hmm",
                "what",
                "why",
            ]
        )
        return text, "How can I help you? Ask me for a sum, a list or a short function.", "No request."
    question = dice.expand(
        "[Hello|Hi|Hey|Good morning|Hello there][, |! |. ][how|how are you|how goes it|nice to meet you|I am new here|can you"
        " help me|what is up|anybody there|are you there|I have a question][!|?|.|]"
    )
    return question, "Hello! How can I help you?", "The user greets me."


STRANGERS = [
    (two_digit_sum, 22),
    (weekday, 8),
    (shell, 12),
    (sql, 12),
    (fixing, 7),
    (translation, 8),
    (fact, 12),
    (beyond, 12),
    (odd, 4),
    (greeting, 2),
    (identity, 2),
]


def segments_of(dice, seed):
    kind = dice.random.random()
    if kind < 0.5:
        question, answer, thought = pick_topic(dice, STRANGERS)(dice)
        messages = [user(question), assistant(answer, thought if dice.chance(0.06) else None)]
        if dice.chance(0.15):
            other, reply, _ = pick_topic(dice, STRANGERS)(dice)
            messages += [user(other), assistant(reply)]
        if dice.chance(0.12):
            messages = [{"role": "system", "content": dice.choice(SYSTEM_PROMPTS)}] + messages
        return render({"messages": messages, "tools": None})
    if kind < 0.6:
        return object_dialogue(dice)
    if kind < 0.75:
        return render(weak_dialogue(dice, FIRST) if dice.chance(0.4) else weak_dialogue(dice))
    return render(dialogue(seed))


if __name__ == "__main__":
    pack(__doc__, segments_of)
