"""Answers what Jinja makes of expressions, a line of JSON for each.

A request is an expression. The answer is a list: its text and its truth for
each of the outcomes in outcomes.json, or why there is none; "address" says that
the text is that of an object in memory, which no other program can give.
"""

import json
import os
import re
import resource
import signal
import sys

import jinja2

resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
environment.globals["rand"] = lambda: 0.25
with open(os.path.join(os.path.dirname(__file__), "outcomes.json")) as file:
    outcomes = [outcome["names"] for outcome in json.load(file)]
address = re.compile(r" at 0x[0-9a-f]+|^<class|<built-in|<function")


def render(source):
    """Returns the text or the error of a template for each outcome."""
    try:
        template = environment.from_string(source)
    except Exception as e:
        return [(None, f"{type(e).__name__}: {e}")] * len(outcomes)
    rendered = []
    for names in outcomes:
        try:
            rendered.append((template.render(**names), None))
        except Exception as e:
            rendered.append((None, f"{type(e).__name__}: {e}"))
    return rendered


print(json.dumps({"jinja": jinja2.__version__, "python": sys.version.split()[0]}), flush=True)
for line in sys.stdin:
    expression = json.loads(line)
    signal.setitimer(signal.ITIMER_PROF, 2)  # of CPU time, after which this process ends and is started again
    texts = render("{{ " + expression + " }}")
    truths = render("{% if (" + expression + ") %}true{% else %}false{% endif %}")
    answers = [
        {"text": text, "text_error": text_error, "truth": truth, "truth_error": truth_error, "address": address.search(text or "") is not None}
        for (text, text_error), (truth, truth_error) in zip(texts, truths)
    ]
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(json.dumps(answers), flush=True)
