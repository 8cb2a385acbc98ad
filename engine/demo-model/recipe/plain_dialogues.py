"""Dialogues without tools. Each returns (messages, whether the model thinks)."""

import re

from facts import CODE_SAMPLES, HELLO_WORLD
from messages import assistant, user
from phrases import camel, code_for, fence
from small_talk import greeting
from topics import pick_topic
from words import CITIES, COLORS, NAMES, NOUNS


def plain_dialogue(dice):
    """One or two questions."""
    thinking = dice.chance(0.2)
    messages = []
    turns = dice.choice([1, 1, 1, 1, 1, 1, 2, 2])
    for turn in range(turns):
        if turn and dice.chance(0.35):
            more = follow_up(dice, messages, thinking)
            if more:
                messages += more
                continue
        question, answer, thought = pick_topic(dice)(dice)
        messages += [user(question), assistant(answer, thought if thinking else None)]
    return messages, thinking


def follow_up(dice, messages, thinking):
    """A question about the previous answer; None if none fits."""
    last_question = messages[-2]["content"]
    last_answer = messages[-1]["content"]
    if messages[-2]["role"] != "user":
        return None
    options = ["again", "whatasked", "thanks"]
    sum_match = re.fullmatch("(-?\\d+) [-+*/] (-?\\d+) = (-?\\d+)", last_answer)
    if sum_match:
        options += ["addto"] * 6
    code_match = re.match("```(python|javascript|typescript)\\n", last_answer)
    if code_match:
        options += ["lang"] * 8
    if re.match("(1\\. |- )", last_answer):
        options += ["oneline"] * 4
    kind = dice.choice(options)

    def when_thinking(thought):
        return thought if thinking else None

    if kind == "again":
        return (
            [
                user(
                    dice.expand(
                        "[Repeat your last answer.|Say that again.|Can you repeat that?|Please repeat that.|Again"
                        " please.|What did you just say?|Say it again]"
                    )
                ),
                assistant(last_answer, when_thinking("I repeat my last answer.")),
            ]
            if len(last_answer) < 160
            else None
        )
    if kind == "whatasked":
        return (
            [
                user(
                    dice.expand(
                        "[What did I just ask?|What was my last question?|What did I say?|What was my last"
                        " message?|Repeat my last message.]"
                    )
                ),
                assistant(f"You wrote: {last_question}", when_thinking("I repeat the last message of the user.")),
            ]
            if len(last_question) < 160
            else None
        )
    if kind == "thanks":
        # Drawn but unused, so that each seed keeps its dialogue.
        greeting(dice)
        return [
            user(dice.expand("[Thanks|Thank you|Great, thanks|Perfect, thank you][!|.|]")),
            assistant("You are welcome! Happy to help.", when_thinking("The user thanks me.")),
        ]
    if kind == "addto":
        result = int(sum_match.group(3))
        number = dice.integer(1, 20)
        operator, operator_word = dice.choice([("+", "add"), ("-", "subtract"), ("*", "times")])
        if operator == "*":
            number = 2
            return [
                user(dice.expand("[Double it.|Now double that.|Multiply that by 2.|Times two?|And twice that?]")),
                assistant(
                    f"{result} * 2 = {result * 2}",
                    when_thinking(f"The last result is {result}. {result} * 2 = {result * 2}."),
                ),
            ]
        if operator == "-" and number > result:
            operator = "+"
            operator_word = "add"
        return [
            user(dice.expand("[Now $w $b.|$w $b.|And if I $w $b?|Now please $w $b]", w=operator_word, b=number)),
            assistant(
                f"{result} {operator} {number} = {(result + number if operator == '+' else result - number)}",
                when_thinking(
                    f"The last result is {result}. {result} {operator} {number} ="
                    f" {(result + number if operator == '+' else result - number)}."
                ),
            ),
        ]
    if kind == "lang":
        for key, _, python, javascript, typescript in CODE_SAMPLES:
            for language, source in (("Python", python), ("JavaScript", javascript), ("TypeScript", typescript)):
                body = re.escape(source).replace("NAME", "(\\w+)", 1).replace("NAME", "\\w+")
                match = re.fullmatch("```\\w+\\n" + body + "\\n```", last_answer)
                if match:
                    other_language = dice.choice([one for one in HELLO_WORLD if one != language])
                    name = match.group(1)
                    if name in (key, camel(key)):
                        name = None
                    return [
                        user(
                            dice.expand(
                                "[Now in $l.|And in $l?|Same in $l please.|Can you write that in $l?|Translate it to"
                                " $l.|Now $l]",
                                l=other_language,
                            )
                        ),
                        assistant(
                            fence(other_language, code_for(key, other_language, name)),
                            when_thinking(f"The same function in {other_language}."),
                        ),
                    ]
        return None
    if kind == "oneline":
        items = [re.sub("^(\\d+\\. |- )", "", one) for one in last_answer.split("\n")]
        return [
            user(
                dice.expand(
                    "[Now in one line.|Put them in one line.|As a comma separated list please.|Separate them with"
                    " commas.]"
                )
            ),
            assistant(", ".join(items), when_thinking("The same items in one line.")),
        ]


def memory_dialogue(dice):
    """A fact stated early and asked for later."""
    thinking = dice.chance(0.2)
    messages = []
    kind = dice.integer(0, 3)
    value = {
        0: dice.choice(NAMES) if dice.chance(0.5) else dice.made_up_word().capitalize(),
        1: dice.choice(COLORS),
        2: dice.choice(CITIES) if dice.chance(0.5) else dice.made_up_word().capitalize(),
        3: dice.choice(
            [dice.made_up_word(), str(dice.integer(100, 9999)), dice.choice(NOUNS) + str(dice.integer(1, 99))]
        ),
    }[kind]
    say, acknowledge, question, answer = [
        (
            "[My name is $v.|I am $v.|Call me $v.|Hi, I'm $v.]",
            "Hello, $v! How can I help you?",
            "[What is my name?|Who am I?|Do you remember my name?|What's my name?]",
            "Your name is $v.",
        ),
        (
            "[My favorite color is $v.|I like the color $v.|I love $v.]",
            "Nice, $v is a good color.",
            "[What is my favorite color?|Which color do I like?|What color do I like?]",
            "Your favorite color is $v.",
        ),
        (
            "[I live in $v.|I am from $v.|My home is $v.]",
            "Thank you, I will remember that you live in $v.",
            "[Where do I live?|Which city do I live in?|Where am I from?]",
            "You live in $v.",
        ),
        (
            "[Remember the code $v.|The password is $v.|Please remember this word: $v|Keep in mind: $v]",
            "I will remember it in this conversation: $v",
            (
                "[What was the code?|What did I ask you to remember?|What is the password?|What was the word?|Which"
                " code did I give you?]"
            ),
            "It is $v.",
        ),
    ][kind]

    def when_thinking(thought):
        return thought if thinking else None

    messages = [
        user(dice.expand(say, v=value)),
        assistant(dice.expand(acknowledge, v=value), when_thinking("The user tells me something. I take note of it.")),
    ]
    for _ in range(dice.choice([0, 0, 1, 1, 2])):
        other_question, other_answer, other_thought = pick_topic(dice)(dice)
        if len(other_question) + len(other_answer) < 240:
            messages += [user(other_question), assistant(other_answer, when_thinking(other_thought))]
    messages += [
        user(dice.expand(question, v=value)),
        assistant(dice.expand(answer, v=value), when_thinking(f"The user told me earlier: {value}.")),
    ]
    return messages, thinking
