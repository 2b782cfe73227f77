"""Renders the templates of jinja2.json again, with Jinja2 as transformers sets it up, and writes what
they give: python3 render.py. A line has a template, its text or null where Jinja2 has an error, and
true where this package has one though Jinja2 has not."""

import copy
import datetime
import json
import os
import re

import jinja2
import jinja2.ext
import jinja2.sandbox

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jinja2.json")
NOW = datetime.datetime(2026, 3, 4, 15, 6, 7)

VARIABLES = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": 'Who <b>&"é"?'},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {
                "name": "f", "arguments": {"z": 1, "a": [1.5, True, None, "x"]}}}]},
        {"role": "tool", "content": "42", "tool_call_id": "c1"}],
    "tools": None, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>",
    "n": 7, "x": 2.5, "neg": -3, "s": "Hello, World", "words": ["b", "a", "C"],
    "d": {"z": 1, "a": 2, "M": 3}, "nested": {"a": {"b": [1, 2, {"c": "deep"}]}}, "none_": None,
    "t": True, "f": False, "empty": [], "es": ""}


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_text")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def render(source):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    try:
        text = environment.from_string(source).render(**copy.deepcopy(VARIABLES))
    except Exception:
        return None
    return re.sub("0x[0-9a-f]{8,}", "0x", text)


def main():
    with open(FILE, encoding="utf-8") as f:
        cases = json.load(f)
    lines = []
    for source, _, *refused in cases:
        lines.append(json.dumps([source, render(source), *refused], ensure_ascii=False))
    with open(FILE, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(lines) + "\n]\n")


main()
