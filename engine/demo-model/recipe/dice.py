"""The random choices of one dialogue, from one seed."""

import random
import re

from words import (
    ANIMALS,
    CITIES,
    COLORS,
    COMMON_WORDS,
    EXTENSIONS,
    FILE_STEMS,
    FOLDERS,
    FRUITS,
    NAMES,
    NOUNS,
    SYLLABLE_ENDS,
    SYLLABLE_MIDDLES,
    SYLLABLE_STARTS,
)


class Dice:
    """Makes all random choices of a dialogue."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def choice(self, options):
        """One of the options."""
        return self.random.choice(options)

    def chance(self, probability):
        """True with this probability."""
        return self.random.random() < probability

    def integer(self, low, high):
        """A whole number, both ends included."""
        return self.random.randint(low, high)

    def sample(self, population, count):
        """This many distinct members."""
        return self.random.sample(population, count)

    def expand(self, pattern, **slots):
        """[a|b|c] becomes one of the three (nesting allowed); $x becomes the slot x."""
        while True:
            match = re.search("\\[([^\\[\\]]*)\\]", pattern)
            if not match:
                break
            pattern = pattern[: match.start()] + self.choice(match.group(1).split("|")) + pattern[match.end() :]
        return re.sub("\\$([a-z]+)", lambda match: str(slots[match.group(1)]), pattern)

    def made_up_word(self, syllables=None):
        """A word that does not exist."""
        syllables = syllables or self.choice([1, 2, 2, 2, 3])
        return "".join(
            self.choice(SYLLABLE_STARTS) + self.choice(SYLLABLE_MIDDLES) + self.choice(SYLLABLE_ENDS)
            for _ in range(syllables)
        )

    def word(self):
        """Any word, or a number."""
        kind = self.random.random()
        if kind < 0.3:
            return self.made_up_word()
        if kind < 0.6:
            return self.choice(COMMON_WORDS)
        if kind < 0.75:
            return self.choice(NOUNS)
        if kind < 0.85:
            return self.choice(ANIMALS + COLORS + FRUITS)
        if kind < 0.95:
            return self.choice(NAMES + CITIES)
        return str(self.integer(0, 999))

    def careless(self, text):
        """The text as a hurried user types it."""
        style = self.random.random()
        if style < 0.12:
            text = text.lower()
        elif style < 0.2:
            text = text[0].upper() + text[1:]
        if self.chance(0.2) and text and (text[-1] in ".?!"):
            text = text[:-1]
        return text

    def path(self):
        """A path of a file."""
        file = (self.choice(FILE_STEMS) if self.chance(0.7) else self.made_up_word()) + "." + self.choice(EXTENSIONS)
        style = self.random.random()
        if style < 0.35:
            return file
        folder = self.choice(FOLDERS) if self.chance(0.8) else self.made_up_word()
        if style < 0.8:
            return folder + "/" + file
        if style < 0.9:
            return "/" + self.choice(FOLDERS) + "/" + folder + "/" + file
        return folder + "/" + self.choice(FILE_STEMS) + "/" + file
