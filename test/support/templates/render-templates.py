"""Renders chat templates as transformers does: the settings of its environment, its filter and its functions.

Reads one JSON object of `templates`, Jinja sources, and `renders`, each with the number of its `template` and its
`variables`. An object with the single key `$json` stands for the value of that JSON text, so that numbers keep all
their digits. Prints a JSON list with `text` or `error` for each of the renders, in their order.
"""

import json
import sys
from datetime import datetime

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """The block around a model's output, which renders its content unchanged."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("same"), [], [], body).set_lineno(line)

    def same(self, caller):
        return caller()


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def refuse(message):
    raise TemplateError(message)


def revived(item):
    return json.loads(item["$json"]) if list(item) == ["$json"] else item


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def rendered(template, variables):
    try:
        return {"text": template.render(**variables)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


given = json.load(sys.stdin, object_hook=revived)
sources = environment()
templates = [sources.from_string(source) for source in given["templates"]]
json.dump([rendered(templates[one["template"]], one["variables"]) for one in given["renders"]], sys.stdout)
