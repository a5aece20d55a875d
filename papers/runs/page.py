"""page.py -- the HTML page of a paper's `reproduce`: the paper's tables, the same measured here,
plots."""
import html

from svg import number, why_none

STYLE = """body{font-family:sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:.6em 1.5em .6em 0;font-size:13px;display:inline-table;\
vertical-align:top}
caption{text-align:left;font-weight:bold;padding:.2em 0}\
th,td{border:1px solid #ccc;padding:2px 7px;text-align:right}
th:first-child,td:first-child{text-align:left}\
.theirs{background:#f6f1e4}.differs{color:#555}h2{margin-top:2em}"""


def table(caption, columns, rows, kind=""):
    head = "".join(f"<th>{html.escape(str(c))}</th>" for c in columns)
    body = "".join("<tr>" +
                   "".join(f"<td>{html.escape(number(c) if not isinstance(c, str) else c)}</td>"
                           for c in row) + "</tr>"
                   for row in rows)
    return (f'<table class="{kind}"><caption>{html.escape(caption)}</caption>'
            f"<tr>{head}</tr>{body}</table>")


def ordered(values):
    return list(dict.fromkeys(values))


class Page:
    """results: experiment name -> {"rows": [...], ...} as benches write them; missing ones are said
    to be missing. tables: of the paper, name -> (caption, columns, rows)."""

    def __init__(self, results, tables, paper):
        self.results, self.tables, self.paper = results, tables, paper
        self.parts, self.counts = [], {"plots": 0, "tables": 0}

    def rows(self, experiment, section=None, **wanted):
        rows = self.results.get(experiment, {}).get("rows", [])
        return [
            row for row in rows if (section is None or row.get("section") == section) and all(
                row.get(key) == value for key, value in wanted.items())
        ]

    def heading(self, words):
        self.parts.append(f"<h2>{html.escape(words)}</h2>")

    def theirs(self, *names):
        for name in names:
            caption, columns, rows = self.tables[name]
            self.parts.append(table(f"{name} ({self.paper}): {caption}", columns, rows, "theirs"))
            self.counts["tables"] += 1

    def ours(self, caption, columns, rows):
        if not rows:
            self.parts.append(f"<p><b>{html.escape(caption)}</b>: not run.</p>")
            return
        self.parts.append(table(caption, columns, rows))
        self.counts["tables"] += 1

    def note(self, words):
        self.parts.append(f"<p>{html.escape(words)}</p>")

    def plot(self, drawn):
        if drawn:
            self.parts.append(f"<p>{drawn}</p>")
            self.counts["plots"] += drawn.startswith("<svg")

    def differs(self, words):
        self.parts.append(f'<p class="differs">Differs because: {html.escape(words)}</p>')

    def write(self, path, title, about, run):
        """about: HTML, of the machines and of what the tables' grounds mean."""
        head = (
            f"<p>Mode <b>{run['mode']}</b>, {html.escape(run['finished'])}, configuration "
            f"{run['config_hash']}, commit "
            f"{html.escape(str(run['environment'].get('commit')))}. {about}</p>")
        if why_none():
            head += f"<p><b>{html.escape(why_none())}</b></p>"
        if run["mode"] == "tiny":
            head += "<p><b>Tiny inputs: says nothing about speed.</b></p>"
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
                f"<title>{html.escape(title)}, re-run</title><style>{STYLE}</style></head>"
                f"<body><h1>{html.escape(title)}: the experiments, re-run</h1>"
                f"{head}{''.join(self.parts)}</body></html>"
            )
        return self.counts
