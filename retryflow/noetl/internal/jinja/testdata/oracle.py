"""Answers what Jinja makes of expressions, a line of JSON for each.

A request is an expression and a list of names with values. The answer is a list: the
text and the truth of the expression for each of them, or why there is none. As in
NoETL an attribute is a key of a mapping, and never a method or a field of Python's.
"""

import json
import resource
import signal
import sys

import jinja2


class Environment(jinja2.Environment):
    def getattr(self, obj, attribute):
        if isinstance(obj, jinja2.Undefined):
            return super().getattr(obj, attribute)
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        return self.undefined(obj=obj, name=attribute)

    def getitem(self, obj, argument):
        if isinstance(argument, str):
            return self.getattr(obj, argument)
        return super().getitem(obj, argument)


resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
environment = Environment(undefined=jinja2.StrictUndefined)
environment.globals = {"rand": lambda: 0.25}


def render(source, all_names):
    """Returns the text or the error of a template for each dict of names."""
    try:
        template = environment.from_string(source)
    except Exception as e:
        return [(None, f"{type(e).__name__}: {e}")] * len(all_names)
    rendered = []
    for names in all_names:
        try:
            rendered.append((template.render(**names), None))
        except Exception as e:
            rendered.append((None, f"{type(e).__name__}: {e}"))
    return rendered


print(json.dumps({"jinja": jinja2.__version__, "python": sys.version.split()[0]}), flush=True)
for line in sys.stdin:
    expression, names = json.loads(line)
    signal.setitimer(signal.ITIMER_PROF, 2)  # of CPU time, after which this process ends
    texts = render("{{ " + expression + " }}", names)
    truths = render("{% if (" + expression + ") %}true{% else %}false{% endif %}", names)
    answers = [
        {"text": text, "text_error": text_error, "truth": truth, "truth_error": truth_error}
        for (text, text_error), (truth, truth_error) in zip(texts, truths)
    ]
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(json.dumps(answers), flush=True)
