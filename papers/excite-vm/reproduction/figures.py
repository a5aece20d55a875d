"""figures.py -- the figures of EXCITE-VM that are run again: which bench runs each, with what in
which size, and how long that takes. Full is three rounds of longer cells; data are as large as the
paper's in both, where it says how large they are."""

from experiment import Experiment


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
]
