"""Definitions, lists and small facts. Each topic returns (question, answer, thought)."""

from facts import DEFINITIONS
from messages import request
from phrases import article
from words import ADJECTIVES, ANIMALS, CAPITALS, CATEGORIES, CITIES, DAYS, MONTHS, NAMES, NOUNS, NUMBER_WORDS, OPPOSITES


def definition(dice):
    """The meaning of a word."""
    term = dice.choice(list(DEFINITIONS))
    term_in_text = term if term[0].isupper() else term
    meaning = DEFINITIONS[term]
    term_with_article = article(term) if meaning.split()[0] in ("A", "An") else term
    question = dice.expand(
        "[What is $a?|What's $a?|Define $k.|Explain $k.|Explain what $a is.|What does $k mean?|Can you explain $a?|Tell"
        " me what $a is.|Give me a definition of $k.|What do you mean by $k?|Explain $a in one sentence.|Describe"
        " $a.|what is $k|Please explain $k|Explain the term $k.|In simple words, what is $a?|I don't know what $a"
        " is.|Meaning of $k?]",
        a=term_with_article,
        k=term_in_text,
    )
    return (
        dice.careless(question),
        meaning,
        dice.expand("The user asks what $k [is|means]. I give a short definition.", k=term),
    )


def listing(dice):
    """Lists."""
    category = dice.choice(list(CATEGORIES))
    members = CATEGORIES[category]
    length = min(dice.choice([2, 3, 3, 3, 4, 5, 5, 6]), len(members))
    if category in ("planets", "days of the week", "months") and dice.chance(0.5):
        question = dice.expand("[List|Name|Tell me|Give me] [all |][the |]$c[.||!]", c=category)
        items = members
    else:
        length_word = dice.choice([str(length), NUMBER_WORDS[length]])
        question = request(
            dice,
            dice.expand(
                "[list|name|give me|tell me|write down|suggest|write a list of|give me a list of|show me] $n $c",
                n=length_word,
                c=category,
            ),
        )
        items = (
            members[:length] if category in ("planets", "days of the week", "months") else dice.sample(members, length)
        )
    style = dice.integer(0, 9)
    if style <= 5 or len(items) > 8:
        answer = "\n".join(f"{index + 1}. {item}" for index, item in enumerate(items))
    else:
        answer = "\n".join("- " + item for item in items)
    if dice.chance(0.25):
        question = question.rstrip(".!?") + dice.choice(
            [", separated by commas.", " as a comma separated list.", " in one line."]
        )
        answer = ", ".join(items)
    elif dice.chance(0.12):
        question = question.rstrip(".!?") + dice.choice([" as bullet points.", " as a bullet list."])
        answer = "\n".join("- " + item for item in items)
    return question, answer, f"The user wants {len(items)} {category}. I list {len(items)}."


def miscellaneous(dice):
    """Capitals, opposites, days, sorting, jokes, stories, reading a sentence."""
    kind = dice.integer(0, 9)
    if kind <= 2:
        place = dice.choice(list(CAPITALS))
        return (
            dice.careless(
                dice.expand(
                    "[What is the capital of $c?|Capital of $c?|Which city is the capital of $c?|What's the capital"
                    " city of $c?|Tell me the capital of $c.|Name the capital of $c.]",
                    c=place,
                )
            ),
            f"The capital of {place} is {CAPITALS[place]}.",
            f"The capital of {place} is {CAPITALS[place]}.",
        )
    if kind == 3:
        one, opposite = dice.choice(OPPOSITES)
        if dice.chance(0.5):
            one, opposite = (opposite, one)
        return (
            dice.careless(
                dice.expand(
                    "[What is the opposite of $a?|Opposite of $a?|Give me the opposite of $a.|What's the opposite of"
                    " $a?]",
                    a=one,
                )
            ),
            f"The opposite of {one} is {opposite}.",
            f"The opposite of {one} is {opposite}.",
        )
    if kind == 4:
        values, unit = dice.choice([(DAYS, "day"), (MONTHS, "month")])
        position = dice.integer(0, len(values) - 1)
        if dice.chance(0.5):
            return (
                f"Which {unit} comes after {values[position]}?",
                f"{values[(position + 1) % len(values)]} comes after {values[position]}.",
                f"After {values[position]} comes {values[(position + 1) % len(values)]}.",
            )
        return (
            f"Which {unit} comes before {values[position]}?",
            f"{values[position - 1]} comes before {values[position]}.",
            f"Before {values[position]} comes {values[position - 1]}.",
        )
    if kind == 5:
        subject = dice.integer(3, 6)
        values = dice.sample(range(0, 100), subject)
        operation = dice.integer(0, 2)
        if operation == 0:
            return (
                request(dice, "sort these numbers: " + ", ".join(map(str, values))),
                ", ".join(map(str, sorted(values))),
                f"Sorted: {', '.join(map(str, sorted(values)))}.",
            )
        if operation == 1:
            return (
                (
                    f"{dice.choice(['What is the largest of', 'Which is the biggest number:', 'Find the maximum of'])}"
                    f" {', '.join(map(str, values))}?"
                ),
                f"The largest number is {max(values)}.",
                f"The largest is {max(values)}.",
            )
        return (
            (
                f"{dice.choice(['What is the smallest of', 'Which is the smallest number:', 'Find the minimum of'])}"
                f" {', '.join(map(str, values))}?"
            ),
            f"The smallest number is {min(values)}.",
            f"The smallest is {min(values)}.",
        )
    if kind == 6:
        subject = dice.integer(0, 20)
        return (
            (
                f"How do you write {subject} in words?",
                NUMBER_WORDS[subject].capitalize() + ".",
                f"{subject} is {NUMBER_WORDS[subject]}.",
            )
            if dice.chance(0.5)
            else (f"Write {NUMBER_WORDS[subject]} as a number.", str(subject), f"{NUMBER_WORDS[subject]} is {subject}.")
        )
    if kind == 7:
        return (
            dice.careless(
                dice.expand("[Tell me a joke|Do you know a joke|Make me laugh|Say something funny|Joke please][.|?|]")
            ),
            dice.choice(
                [
                    "Why did the function return early? It had a date.",
                    "Why do programmers like the dark? Because light attracts bugs.",
                    "What did the server say to the client? I will get back to you.",
                ]
            ),
            "A short joke.",
        )
    if kind == 8:
        theme = dice.choice(
            [
                "a small robot",
                "a brave mouse",
                "a lost key",
                "an old clock",
                "a kind dragon",
                "a red boat",
                "two friends",
                "a talking tree",
                article(dice.choice(ANIMALS)),
                "a "
                + dice.choice([adjective for adjective in ADJECTIVES if adjective[0] not in "aeiou"])
                + " "
                + dice.choice(NOUNS),
            ]
        )
        subject = dice.choice(NAMES)
        return (
            request(dice, dice.expand("[tell me|write|make up] a [short |very short |]story about $t", t=theme)),
            dice.expand(
                "Once there was $t. [One day|One morning|One night] it met $n, and they [went on a long walk|built a"
                " little house|found a hidden garden|crossed the wide river]. In the end, [everyone was happy|they"
                " became good friends|they came home safe].",
                t=theme,
                n=subject,
            ),
            f"A very short story about {theme}.",
        )
    subject = dice.choice(NAMES)
    one = dice.integer(18, 80)
    place = dice.choice(CITIES)
    asked = dice.integer(0, 2)
    context = dice.expand(
        "[$n is $a years old and lives in $c.|$n, $a, lives in $c.|$n lives in $c and is $a years old.]",
        n=subject,
        a=one,
        c=place,
    )
    question, answer = [
        (f"How old is {subject}?", f"{subject} is {one} years old."),
        (f"Where does {subject} live?", f"{subject} lives in {place}."),
        ("Who is this about?", f"This is about {subject}."),
    ][asked]
    return context + " " + question, answer, "The text says: " + answer
