"""figures.py -- the figures of EXCITE-VM that are run again: which bench runs each, with what in
which size, and how long that takes. Full is three rounds of longer cells; data are as large as the
paper's in both, where it says how large they are."""

from experiment import Experiment
from faults import FILES

# Of examples/itm, by the name of STAMP's application that it is after.
STAMP = {
    "gene_assembly": "Genome",
    "kmeans/few": "Kmeans, low",
    "kmeans/many": "Kmeans, high",
    "maze": "Labyrinth",
    "reservations/few": "Vacation, low",
    "reservations/many": "Vacation, high",
    "packets": "Intruder",
    "graph": "SSCA2",
    "mesh": "Yada",
}
PROGRAMS = [
    f"examples/itm/itm_{program}{build}"
    for program in (*dict.fromkeys(case.split("/")[0] for case in STAMP), "ycsb")
    for build in ("", "_mutex")
]


def snapshots(name, figures, quick_seconds, full_seconds):
    """One of bench/snapshots' experiments."""
    common = ["--experiment", name]
    return Experiment(
        name,
        figures,
        "snapshots",
        tiny=common + ["--tiny"],
        quick=common + ["--rounds", "1", "--seconds", "0.3"],
        full=common + ["--rounds", "3", "--seconds", "1"],
        seconds={"tiny": 2, "quick": quick_seconds, "full": full_seconds},
    )


def compiled(name, figures, cases, quick_seconds, full_seconds):
    """Programs of -fgnu-tm on GCC's libitm, on method pages, and with one lock."""
    common = ["--only", f"^({cases})$", "--on", "^(gcc ml_wt|pages|pages-serializable|mutex)$"]
    return Experiment(
        name,
        figures,
        "itm",
        files=FILES + PROGRAMS,
        tiny=common + ["--tiny"],
        quick=common + ["--rounds", "1", "--seconds", "0.1", "--small"],
        full=common + ["--rounds", "5", "--seconds", "1"],
        seconds={"tiny": 4, "quick": quick_seconds, "full": full_seconds},
    )


EXPERIMENTS = [
    snapshots("list", "6.1, figure 2, left: a list of 250", 10, 100),
    snapshots("bank", "6.1, figure 2, right: 1,000,000 accounts, all read by queries", 8, 80),
    Experiment(
        "page-cache",
        "6.2.2, figures 4 and 5: the page cache's time and memory",
        "page_cache",
        quick=["--rounds", "1", "--transactions", "60000"],
        full=["--rounds", "5"],
        seconds={"tiny": 2, "quick": 40, "full": 400},
    ),
    Experiment(
        "ablation",
        "6.2.3, figure 6: what each technique of the commit gains",
        "ablation",
        quick=["--rounds", "1", "--pages", "16,256"],
        seconds={"tiny": 2, "quick": 20, "full": 60},
    ),
    snapshots("reservations", "6.2.4, figures 7 to 9: reservations beside a scan", 20, 200),
    snapshots("ycsb", "6.2.6, figures 11 and 12: YCSB A and E", 15, 150),
    compiled("stamp", "6.2.1, figure 3: applications in the manner of STAMP", "|".join(STAMP), 40,
             500),
    compiled("cache-server", "6.2.5, figure 10: a cache server", "cache/gets|cache/sets", 5, 100),
    compiled("ycsb-compiled", "6.2.6, figures 11 and 12: YCSB A and E, compiled", "ycsb/A|ycsb/E",
             10, 100),
    Experiment(
        "faults",
        "6.2.5: threads of the cache server die in transactions",
        "",
        files=FILES,
        tiny=["--faults", "12", "--seconds", "0.05", "--keys", "100"],
        quick=["--faults", "1000", "--seconds", "2"],
        full=["--faults", "1000", "--seconds", "10"],
        seconds={"tiny": 1, "quick": 8, "full": 25},
    ),
]
