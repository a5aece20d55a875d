"""plots.py -- plots as SVG text, with the standard library alone. Marks have titles, which browsers
show."""

import html
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 360, 80, 210, 40, 50


def colour_of(i):
    """Neighbours in the legend are far apart on the colour circle (the golden angle)."""
    return f"hsl({i * 137.5 % 360:.0f},65%,{38 if i % 2 else 48}%)"


def number(value):
    """Three significant digits."""
    if isinstance(value, str) or value is None:
        return value or "-"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def scale(values, low, high, logarithmic):
    first, last = min(values), max(values)
    if logarithmic:
        first, last = math.log10(first), math.log10(last)
    if last == first:
        last = first + 1
    return lambda v: low + ((math.log10(v) if logarithmic else v) - first) / (last - first) * (
        high - low
    )


def ticks(values, logarithmic):
    first, last = min(values), max(values)
    if logarithmic:
        powers = range(math.floor(math.log10(first)), math.ceil(math.log10(last)) + 1)
        inside = [10.0**p for p in powers if first <= 10.0**p <= last]
        return inside if len(inside) > 1 else sorted({first, last})
    return [first + (last - first) * i / 4 for i in range(5)]


def text(x, y, words, anchor="middle", extra=""):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="12"'
        f' {extra}>{html.escape(str(words))}</text>'
    )


def frame(title, body):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        ' font-family="sans-serif">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        + text(LEFT, 20, title, "start", 'font-weight="bold"')
        + "".join(body)
        + "</svg>"
    )


def legend(names):
    parts = []
    for i, name in enumerate(names):
        y = TOP + 10 + i * 18
        parts.append(
            f'<rect x="{WIDTH - RIGHT + 12}" y="{y - 9}" width="10" height="10"'
            f' fill="{colour_of(i)}"/>'
        )
        parts.append(text(WIDTH - RIGHT + 27, y, name, "start"))
    return parts


def lines(title, x_label, y_label, series, log_x=False, log_y=False):
    """series: name -> [(x, y)]; not positive values are left out of logarithmic axes. None when
    there is nothing to draw."""
    usable = {}
    for name, points in series.items():
        good = sorted((x, y) for x, y in points if (x > 0 or not log_x) and (y > 0 or not log_y))
        if good:
            usable[name] = good
    if not usable:
        return None
    xs = [x for points in usable.values() for x, _ in points]
    ys = [y for points in usable.values() for _, y in points] + ([] if log_y else [0])
    to_x = scale(xs, LEFT, WIDTH - RIGHT, log_x)
    to_y = scale(ys, HEIGHT - BOTTOM, TOP, log_y)
    body = []
    for tick in ticks(xs, log_x):
        body += [
            (
                f'<line x1="{to_x(tick):.1f}" y1="{TOP}" x2="{to_x(tick):.1f}"'
                f' y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
            ),
            text(to_x(tick), HEIGHT - BOTTOM + 18, number(tick)),
        ]
    for tick in ticks(ys, log_y):
        body += [
            (
                f'<line x1="{LEFT}" y1="{to_y(tick):.1f}" x2="{WIDTH - RIGHT}"'
                f' y2="{to_y(tick):.1f}" stroke="#ddd"/>'
            ),
            text(LEFT - 6, to_y(tick) + 4, number(tick), "end"),
        ]
    for i, (name, points) in enumerate(usable.items()):
        colour = colour_of(i)
        path = " ".join(f"{to_x(x):.1f},{to_y(y):.1f}" for x, y in points)
        body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y in points:
            body.append(
                f'<circle cx="{to_x(x):.1f}" cy="{to_y(y):.1f}" r="3" fill="{colour}">'
                f'<title>{html.escape(name)}: {number(x)}, {number(y)}</title></circle>'
            )
    body += [
        text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_label),
        text(
            0,
            0,
            y_label,
            extra=f'transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"',
        ),
    ]
    return frame(title, body + legend(usable))


def bars(title, y_label, groups, series, log_y=False):
    """series: name -> a value, or None, for each group."""
    values = [v for each in series.values() for v in each if v is not None and v > 0]
    if not values:
        return None
    base = 10 ** math.floor(math.log10(min(values))) if log_y else 0
    to_y = scale(values + [base], HEIGHT - BOTTOM, TOP, log_y)
    body = []
    for tick in ticks(values + [base], log_y):
        body += [
            (
                f'<line x1="{LEFT}" y1="{to_y(tick):.1f}" x2="{WIDTH - RIGHT}"'
                f' y2="{to_y(tick):.1f}" stroke="#ddd"/>'
            ),
            text(LEFT - 6, to_y(tick) + 4, number(tick), "end"),
        ]
    room = (WIDTH - RIGHT - LEFT) / len(groups)
    width = room * 0.85 / len(series)
    for g, group in enumerate(groups):
        body.append(text(LEFT + (g + 0.5) * room, HEIGHT - BOTTOM + 18, group))
        for i, (name, each) in enumerate(series.items()):
            if each[g] is None or each[g] <= 0:
                continue
            y = to_y(each[g])
            body.append(
                f'<rect x="{LEFT + g * room + room * 0.075 + i * width:.1f}" y="{y:.1f}"'
                f' width="{width:.1f}" height="{HEIGHT - BOTTOM - y:.1f}"'
                f' fill="{colour_of(i)}"><title>{html.escape(name)}, {html.escape(str(group))}:'
                f' {number(each[g])}</title></rect>'
            )
    body.append(
        text(
            0,
            0,
            y_label,
            extra=f'transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"',
        )
    )
    return frame(title, body + legend(series))
