"""experiments.py -- the thesis's experiments: which bench runs each, with what in which size, and
how long that takes. Full is as large as the thesis's."""

from experiment import Experiment


def trees(experiment, tiny, quick, full):
    common = ["--experiment", experiment]
    return {"tiny": common + ["--tiny"] + tiny, "quick": common + quick, "full": common + full}


# Everybody; of the floor's methods the two that are best. At full size, where each takes a minute:
# the thesis's opponent, and the best method.
FEW = ["--opponents", "floor-direct,floor-dsync,bdb,lmdb,sqlite"]
FEWER = ["--opponents", "floor-direct,bdb"]

EXPERIMENTS = [
    Experiment(
        "machine",
        "4.1, C.1, C.2, C.7, C.8",
        "machine",
        quick=["--writes", "10"],
        full=["--writes", "200"],
        seconds={"tiny": 1, "quick": 1, "full": 2},
    ),
    Experiment("hashes", "C.8", "", seconds={"tiny": 0, "quick": 0, "full": 1}),
    Experiment(
        "page-touch",
        "4.2, figures 4-2 and 4-4, tables 4.2 to 4.6, C.3, C.4",
        "page_touch",
        quick=["--rounds", "3", "--skip-sweep"],
        full=["--rounds", "7"],
        seconds={"tiny": 4, "quick": 25, "full": 45},
    ),
    Experiment(
        "concurrency",
        "4.4, tables 4.9, C.9",
        "concurrency",
        quick=[
            "--rounds",
            "1",
            "--transactions-a",
            "20000",
            "--transactions-b",
            "10000",
            "--transactions-c",
            "500",
            "--processes",
            "1,2",
        ],
        full=["--rounds", "3"],
        seconds={"tiny": 2, "quick": 9, "full": 100},
    ),
    Experiment(
        "durable-page-touch",
        "4.3, tables 4.7, 4.8, 4.10, C.5, C.6, C.10",
        "durable_page_touch",
        quick=[
            "--rounds",
            "1",
            "--transactions",
            "300",
            "--syncs",
            "200",
            "--processes",
            "1,2",
            "--pages",
            "1,16,1024",
        ],
        full=["--rounds", "3", "--transactions", "3000"],
        seconds={"tiny": 3, "quick": 12, "full": 130},
    ),
    Experiment(
        "trees-static",
        "5.2, table 5.1",
        "trees",
        **trees(
            "static",
            [],
            ["--records", "60000", "--searches", "500", "--memory-mib", "8"],
            ["--records", "1000000", "--searches", "1000", "--memory-mib", "64"],
        ),
        seconds={"tiny": 1, "quick": 4, "full": 40}
    ),
    Experiment(
        "trees-dynamic",
        "5.2, table 5.2",
        "trees",
        **trees(
            "dynamic",
            [],
            ["--records", "20000", "--searches", "1000"],
            ["--records", "450000", "--searches", "1000"],
        ),
        seconds={"tiny": 1, "quick": 2, "full": 55}
    ),
    Experiment(
        "trees-in-order",
        "5.2, table 5.3",
        "trees",
        **trees(
            "in-order",
            [],
            ["--records", "20000", "--searches", "1000"],
            ["--records", "450000", "--searches", "1000"],
        ),
        seconds={"tiny": 1, "quick": 1, "full": 20}
    ),
    Experiment("lines-changed", "5.3, table 5.4", "", seconds={"tiny": 0, "quick": 0, "full": 0}),
    Experiment(
        "trees-durable",
        "5.4, tables 5.5, 5.6, C.12, figure 5-3",
        "trees",
        **trees(
            "insert",
            ["--durable", "yes"],
            ["--durable", "yes", "--durable-inserts", "5000"] + FEW,
            ["--durable", "yes", "--durable-inserts", "250000"] + FEWER,
        ),
        seconds={"tiny": 2, "quick": 22, "full": 650}
    ),
    Experiment(
        "trees-nondurable",
        "C.6, table C.11",
        "trees",
        **trees(
            "insert",
            ["--durable", "no"],
            ["--durable", "no", "--inserts", "60000"],
            ["--durable", "no", "--inserts", "250000", "--rounds", "3"],
        ),
        seconds={"tiny": 2, "quick": 20, "full": 400}
    ),
    Experiment(
        "policies",
        "3.3, 5.5, 6.1 item 5",
        "contention",
        quick=[
            "--rounds",
            "1",
            "--transactions",
            "10000",
            "--transactions-eager",
            "1000",
            "--seconds-max",
            "1",
            "--processes",
            "1,2",
        ],
        full=["--rounds", "3"],
        seconds={"tiny": 2, "quick": 6, "full": 55},
    ),
    Experiment(
        "transfers",
        "5.5, 6.1 item 6",
        "trees",
        **trees(
            "transfers",
            [],
            ["--records", "30000", "--searches", "1000"],
            ["--records", "250000", "--searches", "5000"],
        ),
        seconds={"tiny": 2, "quick": 6, "full": 40}
    ),
]
BY_NAME = {each.name: each for each in EXPERIMENTS}
