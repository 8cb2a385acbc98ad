"""Tools with made-up names and arguments, requests for them and their results."""

from messages import request
from phrases import camel, phrase, spoken_name, spoken_value
from words import (
    BOOLEAN_ARGUMENTS,
    CITIES,
    COLORS,
    ENUM_ARGUMENTS,
    NAMES,
    NOUNS,
    NUMBER_ARGUMENTS,
    STRING_ARGUMENTS,
    SUCCESS_WORDS,
    VERBS,
)


def tool_name(dice, verb, noun):
    """A verb and a noun as the name of a tool."""
    style = dice.integer(0, 9)
    if style <= 5:
        return f"{verb}_{noun}"
    if style <= 7:
        return camel(f"{verb}_{noun}")
    if style == 8:
        return f"{verb.capitalize()}{noun.capitalize()}"
    return f"{verb}-{noun}" if dice.chance(0.5) else f"{noun}_{verb}"


def tool_schema(dice, name, description, properties, required=None):
    """The definition of a tool."""
    function = {"name": name}
    if description and dice.chance(0.85):
        function["description"] = description
    schemas = {}
    for key, kind, explanation in properties:
        if isinstance(kind, list):
            schema = {"type": "string", "enum": kind}
        else:
            schema = {"type": kind}
        if explanation and dice.chance(0.4):
            schema["description"] = explanation
        schemas[key] = schema
    function["parameters"] = {"type": "object", "properties": schemas}
    wanted = required if required is not None else [key for key, _, _ in properties]
    if wanted and dice.chance(0.85):
        function["parameters"]["required"] = wanted
    if dice.chance(0.08):
        function["parameters"]["additionalProperties"] = False
    return {"type": "function", "function": function}


def argument_value(dice, key, kind):
    """A value that suits the name and type of an argument."""
    if isinstance(kind, list):
        return dice.choice(kind)
    if kind == "integer":
        return dice.integer(0, 500) if dice.chance(0.7) else dice.integer(1, 10)
    if kind == "number":
        return dice.choice([dice.integer(1, 99), round(dice.random.uniform(0, 99), 1)])
    if kind == "boolean":
        return dice.chance(0.6)
    lower = key.lower()
    if "path" in lower or "file" in lower:
        return dice.path()
    if lower in ("city", "place", "destination", "origin", "cityname", "region"):
        return dice.choice(CITIES) if dice.chance(0.6) else dice.made_up_word().capitalize()
    if "name" in lower or lower in ("owner", "author", "user"):
        if dice.chance(0.5):
            return dice.choice(NAMES)
        if dice.chance(0.6):
            return dice.made_up_word().capitalize()
        return dice.made_up_word()
    if lower == "email":
        return f"{dice.choice(NAMES).lower()}@{dice.made_up_word()}.com"
    if "date" in lower:
        return f"20{dice.integer(20, 35)}-{dice.integer(1, 12):02d}-{dice.integer(1, 28):02d}"
    if "id" == lower[-2:] or lower in ("code", "sku", "isbn", "key"):
        return dice.choice(
            [
                f"{dice.choice('ABCDEFGHKMNPRSTXYZ')}{dice.integer(10, 999)}",
                str(dice.integer(100, 99999)),
                dice.made_up_word() + "-" + str(dice.integer(1, 99)),
                f"{dice.choice('ABCDEFGH')}{dice.choice('KLMNPQ')}-{dice.integer(10, 99)}",
            ]
        )
    if lower == "color":
        return dice.choice(COLORS)
    if lower in ("message", "text", "title", "subject", "phrase", "query", "search_term", "topic"):
        return " ".join(dice.word() for _ in range(dice.choice([1, 2, 2, 3, 4])))
    return dice.word() if dice.chance(0.8) else dice.word() + " " + dice.word()


def random_tool(dice):
    """(name, verb, noun, properties, description)"""
    verb = dice.choice(VERBS) if dice.chance(0.85) else dice.made_up_word()
    noun = dice.choice(NOUNS) if dice.chance(0.65) else dice.made_up_word()
    if dice.chance(0.15):
        noun = noun + "_" + dice.choice(NOUNS)
    name = tool_name(dice, verb, noun)
    if dice.chance(0.08):
        name = dice.made_up_word(dice.choice([1, 2]))
    properties = []
    for key in dice.sample(STRING_ARGUMENTS, dice.choice([0, 1, 1, 1, 2, 2])):
        properties.append((key, "string", f"The {spoken_name(key)}"))
    for key in dice.sample(NUMBER_ARGUMENTS, dice.choice([0, 0, 1, 1])):
        properties.append((key, dice.choice(["integer", "integer", "number"]), f"The {spoken_name(key)}"))
    if dice.chance(0.1):
        key = dice.choice(BOOLEAN_ARGUMENTS)
        properties.append((key, "boolean", ""))
    if dice.chance(0.12):
        key = dice.choice(list(ENUM_ARGUMENTS))
        if key not in [known[0] for known in properties]:
            properties.append((key, ENUM_ARGUMENTS[key], ""))
    dice.random.shuffle(properties)
    description = dice.expand(
        "[$v [a|the] $n|$v $n[ data| information|]|Use this to $v a $n][.|]", v=verb, n=noun.replace("_", " ")
    ).capitalize()
    return name, verb, noun.replace("_", " "), properties, description


def random_request(dice, tool):
    """(question, arguments)"""
    name, verb, noun, properties, description = tool
    # Drawn but unused, so that each seed keeps its dialogue.
    dice.chance(0.8)
    values = [(key, argument_value(dice, key, kind)) for key, kind, _ in properties]
    order = values[:]
    if dice.chance(0.15):
        dice.random.shuffle(order)
    style = dice.integer(0, 9)
    if style <= 2:
        head = dice.expand(
            "[Call|Use|Please call|Run|Use the tool|Call the tool|Please use|Can you call|Invoke] $t", t=name
        )
    elif style <= 7:
        head = request(dice, dice.expand("$v [the|a|my|] $n", v=verb, n=noun)).rstrip(".!?").replace("  ", " ")
    else:
        head = dice.expand(
            "[I need to|I want to|Let us|We should|I would like to] $v [the|a|] $n", v=verb, n=noun
        ).replace("  ", " ")

    def mention(index, key, value):
        return dice.expand(
            "[$h $v|$k $v|$k=$v|$k: $v|$h = $v|the $h $v|$h: $v]", h=spoken_name(key), k=key, v=spoken_value(value)
        )

    if not order:
        tail = ""
    elif len(order) == 1 and style > 2 and dice.chance(0.5) and (not isinstance(order[0][1], bool)):
        tail = dice.expand(" [for|with|of|from|called|at|in] ") + spoken_value(order[0][1])
    else:
        mentions = [mention(index, key, value) for index, (key, value) in enumerate(order)]
        tail = dice.choice([" with ", " for ", " using ", ", ", ": ", " where "]) + (
            ", ".join(mentions[:-1]) + dice.choice([" and ", ", "]) + mentions[-1] if len(mentions) > 1 else mentions[0]
        )
    return head + tail + dice.choice([".", "", "?" if dice.chance(0.2) else "."]), dict(values)


def random_result(dice, tool, arguments):
    """(result, answer)"""
    name, verb, noun, properties, description = tool
    kind = dice.integer(0, 8)
    if kind == 0:
        status = dice.choice(SUCCESS_WORDS)
        return {"status": status}, dice.expand("Done. The status is $s.", s=status)
    if kind in (1, 2):
        result = phrase(dice, dice.choice([1, 2, 3]))
        return {"result": result}, f"The result is {result}" + ("" if result[-1] in ".!?" else ".")
    if kind == 3:
        key = dice.choice(NUMBER_ARGUMENTS)
        result = dice.integer(0, 999)
        return {key: result}, f"The {spoken_name(key)} is {result}."
    if kind == 4:
        keys = dice.sample(STRING_ARGUMENTS, 2)
        values = [argument_value(dice, one, "string") for one in keys]
        return (
            dict(zip(keys, values)),
            f"The {spoken_name(keys[0])} is {values[0]} and the {spoken_name(keys[1])} is {values[1]}.",
        )
    if kind == 5:
        error = dice.expand(
            "[$n not found|permission denied|connection refused|timeout|unknown $k|service unavailable|invalid $k]",
            n=noun,
            k=dice.choice(STRING_ARGUMENTS),
        )
        return dice.choice([{"error": error}, f"Error: {error}"]), f"The tool reported an error: {error}."
    if kind == 6:
        result = phrase(dice, dice.choice([2, 3, 4, 5]))
        return result, f"The tool answered: {result}"
    if kind == 7:
        items = [dice.word() for _ in range(dice.integer(2, 4))]
        return {"items": items}, f"There are {len(items)} items: {', '.join(items)}."
    identifier = dice.made_up_word() + "-" + str(dice.integer(1, 99))
    return {"id": identifier, "status": dice.choice(SUCCESS_WORDS)}, f"Done. The id is {identifier}."
