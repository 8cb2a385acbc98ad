"""Messages of a dialogue, and requests in different manners."""

import json


def user(text):
    """A turn of the user."""
    return {"role": "user", "content": text}


def assistant(text, thinking=None, calls=None):
    """A turn of the assistant; calls are (name, arguments) pairs."""
    message = {"role": "assistant", "content": text}
    if thinking:
        message["reasoning_content"] = thinking
    if calls:
        message["tool_calls"] = [
            {"type": "function", "function": {"name": name, "arguments": arguments}} for name, arguments in calls
        ]
    return message


def tool_result(result):
    """The result of a tool."""
    return {"role": "tool", "content": result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)}


REQUEST_PREFIXES = [
    "",
    "",
    "",
    "",
    "",
    "",
    "Please ",
    "Can you ",
    "Could you ",
    "Hey, ",
    "Hi, ",
    "Now ",
    "I want you to ",
    "Would you ",
]


def request(dice, imperative, careful=False):
    """Wraps an imperative in lower case as a request."""
    prefix = dice.choice(REQUEST_PREFIXES)
    ending = "?" if prefix.strip() in ("Can you", "Could you", "Would you") else dice.choice([".", ".", "", "!"])
    if prefix == "":
        imperative = imperative[0].upper() + imperative[1:]
    return (
        dice.careless(prefix + imperative + (" please" if dice.chance(0.06) else "") + ending)
        if not careful and dice.chance(0.25)
        else prefix + imperative + ending
    )
