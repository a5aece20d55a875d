"""svg.py -- plots as SVG text for an HTML page, drawn by matplotlib.

Without matplotlib nothing is drawn: why_none() says so, and a page has its tables and the titles
of its plots.
"""
import html
import io
import math
import sys

try:
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
except ImportError:
    matplotlib = None

NONE = (f"no plots: {sys.executable} has no matplotlib (Debian: python3-matplotlib, "
        "for /usr/bin/python3)")
WIDTH_INCHES, HEIGHT_INCHES = 8.5, 4.0


def why_none():
    """Empty, or what is missing."""
    return "" if matplotlib else NONE


def number(value):
    """Three significant digits."""
    if isinstance(value, str) or value is None:
        return value or "-"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def _not_drawn(title):
    return f"<i>not drawn: {html.escape(title)}</i>"


def _axes(title, x_label, y_label):
    # The same bytes for the same numbers.
    matplotlib.rcParams.update({"svg.hashsalt": "tmh", "svg.fonttype": "none", "font.size": 9})
    figure, axes = pyplot.subplots(figsize=(WIDTH_INCHES, HEIGHT_INCHES))
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(color="#ddd")
    axes.set_axisbelow(True)
    return figure, axes


def _text(figure, axes):
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
    text = out.getvalue()
    return text[text.index("<svg"):]  # without the XML declaration, which HTML has no place for


def lines(title, x_label, y_label, series, log_x=False, log_y=False):
    """series: name -> [(x, y)]. None when there is nothing to draw.

    Values that are not positive are left out of logarithmic axes.
    """
    usable = {}
    for name, points in series.items():
        good = sorted((x, y) for x, y in points if (x > 0 or not log_x) and (y > 0 or not log_y))
        if good:
            usable[name] = good
    if not usable:
        return None
    if matplotlib is None:
        return _not_drawn(title)
    figure, axes = _axes(title, x_label, y_label)
    for name, points in usable.items():
        axes.plot(*zip(*points), marker="o", markersize=3, label=name)
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0, *(y for points in usable.values() for _, y in points)))
    return _text(figure, axes)


def bars(title, y_label, groups, series, log_y=False):
    """series: name -> a value, or None, for each group. None when there is nothing to draw."""
    if not any(v is not None and v > 0 for each in series.values() for v in each):
        return None
    if matplotlib is None:
        return _not_drawn(title)
    figure, axes = _axes(title, "", y_label)
    width = 0.85 / len(series)
    for i, (name, each) in enumerate(series.items()):
        places = [g + (i + 0.5) * width - 0.425 for g in range(len(groups))]
        heights = [v if v is not None and v > 0 else math.nan for v in each]
        axes.bar(places, heights, width, label=name)
    axes.set_xticks(range(len(groups)), groups)
    if log_y:
        axes.set_yscale("log")
    return _text(figure, axes)
