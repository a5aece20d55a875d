"""cost_model.py -- chapter 4's cost of a transaction, fitted: aR + bW + c us for R pages
read and W written.

Least squares of the relative error, so that a transaction of one page counts as much as one of
1,024. c is what a transaction costs whatever it touches; in durable ones, as in the thesis, what it
costs to write at all: one that only reads waits for no disk.
"""

THESIS = [["thesis, nondurable", "15 to 55", "about 2a", "-"],
          ["thesis, durable", "tens", "hundreds to thousands", "5,000 to 15,000"]]


def solve(matrix, values):
    """Gauss with pivots; None where the rows do not determine the result."""
    rows = [list(row) + [value] for row, value in zip(matrix, values)]
    for i in range(len(rows)):
        pivot = max(range(i, len(rows)), key=lambda r: abs(rows[r][i]))
        if abs(rows[pivot][i]) < 1e-12:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(len(rows)):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[i])]
    return [row[-1] / row[i] for i, row in enumerate(rows)]


def fit(points, of_writers=False):
    """points: (R, W, us). [a, b, c], or None. of_writers: c only where W is not 0."""
    weighted = [((r / us, w / us, (1 if w or not of_writers else 0) / us), 1.0)
                for r, w, us in points if us > 0]
    normal = [[sum(x[i] * x[j] for x, _ in weighted) for j in range(3)] for i in range(3)]
    return solve(normal, [sum(x[i] * y for x, y in weighted) for i in range(3)])


def rows(touched, durable):
    """[[name, a, b, c]] of the rows of page-touch and of durable-page-touch, then the thesis's."""
    groups = {}
    for row in touched:
        if row["pattern"] == "hot" and row["advice"] == "none":
            groups.setdefault("nondurable, " + row["variant"], []).append(row)
    for row in durable:
        if row["advice"] == "none":
            groups.setdefault("durability " + row["durability"], []).append(row)
    fitted = []
    for name, group in groups.items():
        abc = fit([(r["read_pages"], r["write_pages"], r["us_per_transaction_median"])
                   for r in group], name.startswith("durability"))
        if abc:
            fitted.append([name, *abc])
    return fitted + (THESIS if fitted else [])
