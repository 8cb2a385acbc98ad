"""Packs dialogues for the last phase: the first requests of new users.

Small sums, greetings, and objects whose keys a grammar forces, so that their strings end. The opening brace of such an
object is not learned: the request decides whether to answer in JSON.
"""

import argparse
import json

from bpe import Tokenizer
from dialogues import dialogue, render
from dice import Dice
from facts import SYSTEM_PROMPTS
from json_replies import json_reply
from phrases import phrase
from small_talk import greeting, identity
from sums import arithmetic, written_sum
from token_file import TokenFile
from topics import pick_topic
from weak_spots import weak_dialogue
from words import (
    ADJECTIVES,
    ANIMALS,
    CITIES,
    COLORS,
    COMMON_WORDS,
    FRUITS,
    LANGUAGES,
    MONTHS,
    NAMES,
    NOUNS,
    NUMBER_ARGUMENTS,
    PLANETS,
    STRING_ARGUMENTS,
    VEGETABLES,
)
from writing import echoing

PEOPLE = "name firstName first_name lastName last_name author owner user person customer sender recipient contact".split()
PLACES = "city location place destination origin town capital country".split()
SENTENCES = "summary description text message answer comment note reason content title subject explanation reply".split()
LISTS = "items tags names words colors steps ingredients hobbies languages fruits keywords values".split()
COUNTS = "age count number amount quantity year score rating total price size id answer result population".split()
SWITCHES = "active done enabled valid ok success found available open is_member".split()
LABELS = "status type kind category color level priority language mood sentiment unit currency email job animal fruit".split()


def sentence(dice):
    """A few words that make some sense."""
    return dice.expand(
        "[The $c $a [is|was] $j.|A $j $n.|$j and $i $n|$p [likes|has|sees] a $j $a.|The $n is $j.|It is a $j $n.]",
        c=dice.choice(COLORS),
        a=dice.choice(ANIMALS),
        j=dice.choice(ADJECTIVES),
        i=dice.choice(ADJECTIVES),
        n=dice.choice(NOUNS),
        p=dice.choice(NAMES),
    )


def label(dice, key):
    """A word that fits a key."""
    fitting = {
        "color": COLORS,
        "colors": COLORS,
        "language": LANGUAGES,
        "languages": LANGUAGES,
        "animal": ANIMALS,
        "fruit": FRUITS,
        "fruits": FRUITS,
        "ingredients": VEGETABLES + FRUITS,
        "names": NAMES,
        "email": [f"{name.lower()}@example.com" for name in NAMES],
        "status": ["open", "done", "ok", "active", "pending", "ready"],
        "priority": ["low", "medium", "high"],
        "level": ["low", "medium", "high"],
        "sentiment": ["positive", "negative", "neutral"],
        "mood": ["happy", "sad", "calm"],
    }
    return dice.choice(fitting.get(key, NOUNS + COMMON_WORDS))


def field(dice, depth=0):
    """A key and its value."""
    kind = dice.random.random()
    if kind < 0.2:
        key = dice.choice(PEOPLE)
        name = dice.choice(NAMES) if dice.chance(0.85) else dice.made_up_word(2).capitalize()
        return key, f"{name} {dice.choice(NAMES)}" if dice.chance(0.15) else name
    if kind < 0.3:
        return dice.choice(PLACES), dice.choice(CITIES)
    if kind < 0.42:
        return dice.choice(SENTENCES), sentence(dice) if dice.chance(0.7) else phrase(dice)
    if kind < 0.54:
        key = dice.choice(LABELS)
        return key, label(dice, key)
    if kind < 0.62:
        return dice.choice(STRING_ARGUMENTS + NOUNS), dice.word()
    if kind < 0.82:
        return dice.choice(COUNTS + NUMBER_ARGUMENTS), dice.integer(0, dice.choice([10, 50, 100, 2000]))
    if kind < 0.88:
        return dice.choice(SWITCHES), dice.chance(0.5)
    if kind < 0.96 or depth > 0:
        key = dice.choice(LISTS)
        return key, [label(dice, key) for _ in range(dice.integer(1, 4))]
    return dice.choice(NOUNS), dict(field(dice, 1) for _ in range(dice.integer(1, 3)))


def object_dialogue(dice):
    """A request, and an object that a schema forces: with values from the request if it has them, else made-up ones."""
    if dice.chance(0.3):
        question, answer, _ = json_reply(dice)
        if not answer.startswith("{"):
            return None
        reply = json.loads(answer)
    else:
        reply = dict(field(dice) for _ in range(dice.choice([1, 1, 2, 2, 3, 3, 4, 5])))
        keys = [key.replace("_", " ") for key in reply]
        values = ", ".join(
            f"{key} {json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value}"
            for key, value in reply.items()
        )
        kind = dice.random.random()
        if kind < 0.35:
            question = dice.expand(
                "[Give me|Describe|Make up|Invent|Generate|Create|Tell me about|Write|Return|I need]"
                " [a|one|some|an example of a|a random] $t[ with $k|][.||, please.]",
                t=dice.choice(["person", "user", "city", "customer", "record", "thing", "product", "pet", "book", *NOUNS]),
                k=dice.choice([", ".join(keys), " and ".join(keys)]),
            )
        elif kind < 0.7:
            question = dice.expand(
                "[Extract the data|Extract $k|Read this|Fill in the form|What does this say|Parse this][:|.] $v[.|]",
                k=", ".join(keys),
                v=values,
            )
        else:
            question = pick_topic(dice)(dice)[0]
    separators = (",", ":") if dice.chance(0.25) else (", ", ": ")
    text = json.dumps(reply, ensure_ascii=False, separators=separators)
    segments = []
    if dice.chance(0.2):
        segments.append((f"<|im_start|>system\n{dice.choice(SYSTEM_PROMPTS)}<|im_end|>\n", 0))
    segments.append((f"<|im_start|>user\n{question}<|im_end|>\n", 0))
    segments.append(("<|im_start|>assistant\n{", 0))
    segments.append((text[1:] + "<|im_end|>", 1))
    return segments


def small_sum(dice):
    """A sum up to 20."""
    kind = dice.random.random()
    if kind < 0.55:
        left, right, operator, word = dice.integer(0, 20), dice.integer(0, 20), "+", "plus"
        result = left + right
    elif kind < 0.8:
        left, right = sorted((dice.integer(0, 20), dice.integer(0, 20)), reverse=True)
        operator, word, result = "-", "minus", left - right
    else:
        left, right, operator, word = dice.integer(0, 10), dice.integer(0, 10), "*", "times"
        result = left * right
    if operator == "*":
        operator = dice.choice(["*", "x", "×"])
    return written_sum(dice, left, operator, word, right, result)


FIRST = [(small_sum, 12), (greeting, 3), (arithmetic, 3), (identity, 1), (echoing, 2)]


def segments_of(dice, seed):
    kind = dice.random.random()
    if kind < 0.22:
        return object_dialogue(dice)
    if kind < 0.55:
        return render(weak_dialogue(dice, FIRST))
    return render(weak_dialogue(dice) if kind < 0.8 else dialogue(seed))


def pack(description, segments_of):
    """Packs the dialogues of a phase by the command line; `segments_of` makes one of dice and a seed, or None."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="also the seed: the same name gives the same dialogues")
    parser.add_argument("count", type=int)
    parser.add_argument("--vocabulary", default="../tok.json")
    arguments = parser.parse_args()
    file = TokenFile(Tokenizer(arguments.vocabulary))
    for index in range(arguments.count):
        seed = f"{arguments.out}{index}"
        segments = segments_of(Dice(seed), f"{arguments.out}d{index}")
        if segments:
            file.add_segments(segments)
    file.save(arguments.out)


if __name__ == "__main__":
    pack(__doc__, segments_of)
