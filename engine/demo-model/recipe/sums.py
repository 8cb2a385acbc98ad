"""Sums, counting and comparing. Each topic returns (question, answer, thought)."""

from messages import request
from phrases import article
from words import ANIMALS, CAPITALS, COLORS, FRUITS, NAMES, PLANETS, SPORTS, TREES, VEGETABLES


def arithmetic(dice):
    """Sums."""
    kind = dice.integer(0, 13)
    if kind <= 4:
        left, right = (
            (dice.integer(0, 99), dice.integer(0, 99))
            if dice.chance(0.6)
            else (dice.integer(0, 20), dice.integer(0, 20))
        )
        operator = "+"
        operator_word = "plus"
        result = left + right
    elif kind <= 7:
        left, right = sorted((dice.integer(0, 99), dice.integer(0, 99)), reverse=True)
        if dice.chance(0.4):
            left, right = sorted((dice.integer(0, 20), dice.integer(0, 20)), reverse=True)
        operator = "-"
        operator_word = "minus"
        result = left - right
    elif kind <= 10:
        left = dice.integer(0, 12)
        right = dice.integer(0, 12)
        operator = dice.choice(["*", "*", "x", "×"])
        operator_word = "times"
        result = left * right
    elif kind == 11:
        right = dice.integer(1, 10)
        result = dice.integer(0, 12)
        left = right * result
        operator = "/"
        operator_word = "divided by"
    else:
        name = dice.choice(NAMES)
        thing = dice.choice(FRUITS + ["book", "coin", "card", "pen", "stamp"])
        left = dice.integer(2, 20)
        right = dice.integer(1, 15)
        things = (
            thing[:-1] + "ies"
            if thing.endswith("y")
            else thing + ("es" if thing.endswith(("sh", "ch", "x", "o")) else "s")
        )
        if dice.chance(0.6):
            result = left + right
            question = dice.expand(
                "$n has $a $i and [gets|buys|finds|receives] $b more. How many $i does $n have[ now|]?",
                n=name,
                a=left,
                b=right,
                i=things,
            )
            operator = "+"
        else:
            left, right = (max(left, right), min(left, right))
            result = left - right
            question = dice.expand(
                "$n has $a $i and [gives away|loses|sells|eats] $b. How many $i [are left|does $n have left|remain]?",
                n=name,
                a=left,
                b=right,
                i=things,
            )
            operator = "-"
        return (
            question,
            f"{name} has {result} {things}" + (" left." if operator == "-" else "."),
            f"{left} {operator} {right} = {result}.",
        )
    return written_sum(dice, left, operator, operator_word, right, result)


def written_sum(dice, left, operator, operator_word, right, result):
    """A sum, asked in the ways that people ask."""
    symbol = "*" if operator in "x×" else operator
    question = dice.expand(
        "[What is $a $o $b?|What's $a $o $b?|$a $o $b|$a $o $b = ?|$a$o$b|Calculate $a $o $b.|Compute $a $o $b|How much"
        " is $a $o $b?|What is $a $w $b?|How much is $a $w $b?|Tell me $a $w $b.|Please add up: $a $o $b|Solve $a $o"
        " $b|What do you get for $a $o $b?|what is $a$o$b]".replace(
            "Please add up: $a $o $b|", "" if operator != "+" else "Please add up: $a $o $b|"
        ),
        a=left,
        b=right,
        o=operator,
        w=operator_word,
    )
    if operator == "+" and dice.chance(0.12):
        question = dice.expand(
            "[Add $a and $b.|What is the sum of $a and $b?|Sum $a and $b|add $a to $b]", a=left, b=right
        )
    return (
        question,
        f"{left} {symbol} {right} = {result}",
        dice.expand(
            "[The user wants $a $o $b. |I need to compute $a $o $b. |]$a $o $b = $s.",
            a=left,
            b=right,
            o=symbol,
            s=result,
        ),
    )


def yes_or_no(dice):
    """Questions to be answered with yes or no."""
    kind = dice.integer(0, 6)
    if kind == 0:
        number = dice.integer(0, 200)
        asks_even = dice.chance(0.5)
        return (
            f"Is {number} {('even' if asks_even else 'odd')}?",
            ("Yes" if (number % 2 == 0) == asks_even else "No")
            + f", {number} is {('even' if number % 2 == 0 else 'odd')}.",
            f"{number} ends in {number % 10}, so it is {('even' if number % 2 == 0 else 'odd')}.",
        )
    if kind == 1:
        answer = dice.integer(0, 100)
        other = dice.integer(0, 100)
        if answer == other:
            other += 1
        asks_greater = dice.chance(0.5)
        comparison = dice.choice(["greater", "bigger", "larger"]) if asks_greater else dice.choice(["smaller", "less"])
        return (
            f"Is {answer} {comparison} than {other}?",
            ("Yes" if (answer > other) == asks_greater else "No")
            + f", {answer} is {('greater' if answer > other else 'smaller')} than {other}.",
            f"{answer} {('>' if answer > other else '<')} {other}.",
        )
    if kind == 2:
        asked = dice.choice(list(CAPITALS))
        city = CAPITALS[asked] if dice.chance(0.5) else dice.choice(list(CAPITALS.values()))
        return (
            f"Is {city} the capital of {asked}?",
            (
                f"Yes, {city} is the capital of {asked}."
                if city == CAPITALS[asked]
                else f"No, the capital of {asked} is {CAPITALS[asked]}."
            ),
            f"The capital of {asked} is {CAPITALS[asked]}.",
        )
    if kind == 3:
        asked = dice.choice(["fruit", "vegetable", "color", "animal", "planet", "sport", "tree"])
        groups = {
            "fruit": FRUITS,
            "vegetable": VEGETABLES,
            "color": COLORS,
            "animal": ANIMALS,
            "planet": PLANETS,
            "sport": SPORTS,
            "tree": TREES,
        }
        group = asked if dice.chance(0.5) else dice.choice([member for member in groups])
        member = dice.choice([one for one in groups[group] if one not in ("orange", "chess")])
        member_with_article = member if group in ("color", "planet", "sport") else article(member)
        return (
            f"Is {member_with_article} {article(asked)}?",
            (
                f"Yes, {member_with_article} is {article(asked)}."
                if group == asked
                else f"No, {member_with_article} is {article(group)}."
            ),
            f"{member.capitalize()} is {article(group)}.",
        )
    if kind == 4:
        return (
            dice.careless(
                dice.expand(
                    "[Answer with yes or no:|Yes or no:] [is the sky blue|is water wet|is fire hot|is snow cold|is the"
                    " sun a star|do birds fly|do fish swim|is a dog an animal|is one less than two]?"
                )
            ),
            "Yes.",
            "This is true.",
        )
    if kind == 5:
        return (
            dice.careless(
                dice.expand(
                    "[Answer with yes or no:|Yes or no:] [is fire cold|is snow hot|can a stone swim|is the moon a"
                    " star|is a cat a plant|is two less than one|do fish ride bicycles|is ice warm]?"
                )
            ),
            "No.",
            "This is false.",
        )
    question, answer = dice.choice(
        [
            ("Can you call tools", "Yes, I can call tools when the request defines them."),
            ("Can you write code", "Yes, but only very simple functions."),
            ("Can you browse the web", "No, I cannot browse the web unless you give me a tool for it."),
            ("Can you see images", "No, I only read text."),
            ("Do you remember our last chat", "No, I only see the messages of this request."),
            ("Can you read my files", "Only if you give me a tool that reads files."),
            ("Can you think", "I can write a short thinking trace when thinking is enabled."),
            ("Can you reply in JSON", "Yes, I can reply in JSON."),
            ("Can you count", "Yes, I can count."),
            ("Can you do math", "I can do small sums, but please check the results."),
            ("Can you run on a CPU", "Yes, I run on a CPU without any GPU."),
        ]
    )
    return dice.careless(question + dice.choice(["?", "?", ""])), answer, "A short honest answer is enough."


def counting(dice):
    """Counting."""
    kind = dice.integer(0, 9)
    if kind <= 6:
        end = (
            dice.choice(
                [
                    dice.integer(2, 10),
                    dice.integer(5, 20),
                    dice.integer(10, 30),
                    dice.integer(20, 60),
                    dice.integer(40, 100),
                ]
            )
            if dice.chance(0.93)
            else dice.choice([100, 120, 150])
        )
        if dice.chance(0.1):
            end = dice.choice([10, 20, 50, 100])
        first = 1
        last = end
        question = request(
            dice,
            dice.expand(
                "[count from 1 to $n|count to $n|count up to $n|count 1 to $n|list the numbers from 1 to $n|write the"
                " numbers 1 to $n|print numbers from 1 to $n|count from one to $n]",
                n=end,
            ),
        )
    elif kind == 7:
        first = dice.integer(2, 80)
        last = first + dice.integer(2, 15)
        question = request(
            dice,
            dice.expand(
                "[count from $a to $b|list the numbers from $a to $b|write the numbers $a to $b]", a=first, b=last
            ),
        )
    elif kind == 8:
        first = dice.integer(3, 20)
        last = dice.choice([0, 1])
        question = request(
            dice, dice.expand("[count down from $a to $b|count backwards from $a to $b]", a=first, b=last)
        )
    else:
        step = dice.choice([2, 5, 10])
        first = step
        last = step * dice.integer(3, 12)
        question = request(dice, dice.expand("count [from $a |]to $b [by|in steps of] $s", a=first, b=last, s=step))
        return question, ", ".join(map(str, range(first, last + 1, step))), f"I count in steps of {step}."
    numbers = range(first, last + 1) if first <= last else range(first, last - 1, -1)
    separator = ", "
    if dice.chance(0.2):
        question = question.rstrip(".!?") + dice.choice(
            [", one per line.", ", one number per line.", " with each number on its own line."]
        )
        separator = "\n"
    return question, separator.join(map(str, numbers)), f"I count from {first} to {last}."
