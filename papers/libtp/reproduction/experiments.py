"""experiments.py -- the figures and tables of LIBTP that are run again: which bench runs each, with
what in which size, and how long that takes. Contestants that a build does not have are left out by
the bench, and the page says so."""

from experiment import Experiment

# As the paper's: records of 100 bytes, 10 branches.
RECORDS = ["--record-bytes", "100", "--page-bytes", "4096"]
SINGLE = "records,tcl,server,private files,flock,fsync,SQLite,Berkeley DB,4.4BSD"
ALL = "records,steps,one step,pages,lines,Berkeley DB,SQLite"
# 145 MB of data, and a tenth of that as memory; caches of a process are as small as they can be.
DISK = ["--accounts", "1000000", "--cache-mib", "1", "--memory-kib", "14500", "--processes", "1"]


def tp(name, answers, common, quick, full, quick_seconds, full_seconds):
    return Experiment(
        name,
        answers,
        "tp",
        tiny=common + ["--tiny"],
        quick=common + ["--rounds", "1"] + quick,
        full=common + full,
        seconds={"tiny": 4, "quick": quick_seconds, "full": full_seconds},
    )


EXPERIMENTS = [
    Experiment(
        "command",
        "figure 4: a record from a command line; files that are opened often",
        "records",
        quick=["--rounds", "1", "--runs", "8", "--opens", "200"],
        full=["--rounds", "5"],
        seconds={"tiny": 2, "quick": 8, "full": 120},
    ),
    Experiment(
        "latches",
        "figure 5: latches by kernel calls",
        "latches",
        quick=["--rounds", "1", "--transactions", "5000", "--synced", "100", "--contended",
               "30000"],
        full=["--rounds", "5"],
        seconds={"tiny": 1, "quick": 5, "full": 60},
    ),
    tp("single-user", "figure 6: one process, CPU bound",
       RECORDS + ["--only", SINGLE, "--processes", "1", "--details"],
       ["--accounts", "100000", "--transactions", "5000", "--synced", "150"],
       ["--accounts", "1000000"], 20, 600),
    tp("disk-bound", "figure 6: memory for a tenth of the data, with a log",
       RECORDS + DISK + ["--durabilities", "not synced,synced"],
       ["--only", "records,fsync", "--transactions", "300", "--synced", "100"],
       ["--only", "records,fsync,SQLite,Berkeley DB", "--rounds", "3", "--transactions", "3000"],
       40, 700),
    tp("disk-bound-unprotected", "figure 6: memory for a tenth of the data, NOTP and FLOCK",
       RECORDS + DISK + ["--only", "private files,flock,4.4BSD", "--durabilities", "volatile"],
       ["--transactions", "300"], ["--rounds", "3", "--transactions", "3000"], 8, 60),
    tp("multi-user", "figures 7 and 9: 1 to 10 processes, large database, synced",
       RECORDS + ["--only", "records,Berkeley DB,SQLite", "--durabilities", "synced"],
       ["--accounts", "50000", "--synced", "60", "--processes", "1,2,4,10"],
       ["--rounds", "3", "--accounts", "1000000", "--synced", "500", "--processes",
        "1,2,3,4,5,6,7,8,9,10"], 15, 900),
    tp("read-only", "figure 8: 1 to 10 processes, small database, only reads",
       RECORDS + ["--read-only", "--only", "records,Berkeley DB,SQLite", "--durabilities",
                  "not synced"],
       ["--accounts", "1000", "--transactions", "3000", "--processes", "1,2,4,10"],
       ["--rounds", "3", "--accounts", "1000", "--processes", "1,2,3,4,5,6,7,8,9,10"], 10, 200),
    tp("no-fsync", "figures 8 and 9: 1 to 10 processes, small database, log not synced",
       RECORDS + ["--only", "records,Berkeley DB,SQLite", "--durabilities", "not synced"],
       ["--accounts", "1000", "--transactions", "2000", "--processes", "1,2,4,10"],
       ["--rounds", "3", "--accounts", "1000", "--processes", "1,2,3,4,5,6,7,8,9,10"], 12, 400),
    Experiment(
        "oo1",
        "5.2, tables 2 and 3: OO1, cold and warm",
        "oo1",
        quick=["--rounds", "1", "--repeats", "5"],
        full=["--rounds", "5", "--parts", "20000,200000"],
        seconds={"tiny": 3, "quick": 20, "full": 600},
    ),
    tp("everyone", "no table of the paper: TPC-B by every means",
       ["--only", ALL, "--details", "--durabilities", "not synced,synced"],
       ["--transactions", "2000", "--synced", "60", "--processes", "1,2"],
       ["--processes", "1,2,4"], 20, 600),
]
