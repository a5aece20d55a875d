"""libtp.py -- what LIBTP (UCB/ERL M92/2, 1992) measured. Values of figures are those of the drawing
commands of the authors' PostScript (curves exact, bars to half a per cent of the axis); values of
tables stand in the text."""

MACHINE = ("figures 4, 6 to 9, table 3: DECstation 5000/200, 32 MB of memory, a disk of 1 GB (the "
           "RDBMS: Sparcstation 1+); figure 5, table 2: HP300, 33 MHz, 16 MB. Log and database "
           "on one disk.")

SINGLE_USER = {
    "LIBTP": 7.7, "TCL": 7.5, "SERVER": 4.5, "NOTP": 9.25, "FLOCK": 8.9, "FSYNC": 4.5, "RDBMS": 6.0
}
KERNEL_LATCHES = {"1 disk": 96, "2 disks": 94, "read-only": 33}  # % of spinning
PROCESSES = list(range(1, 11))
LARGE = [8.8, 10.0, 9.5, 8.6, 6.3, 4.1, 3.3, 3.0, 1.9, 2.1]
READ_ONLY = [121, 118, 121, 147, 158, 152, 152, 152, 153, 153]
NO_FSYNC = [100, 70, 34, 30, 31, 20, 23, 25, 12, 8]
ABORTS_SMALL = [0, 3, 13, 15, 15, 23, 15, 18, 40, 60]
ABORTS_LARGE = [0, 0, 1, 6, 22, 50, 59, 66, 83, 104]


def by_processes(**columns):
    return [[str(n), *(values[i] for values in columns.values())] for i, n in enumerate(PROCESSES)]


FIGURES = {
    "Figure 4": ("one record from a command line, s", ["calls", "one process", "client and server"],
                 [["components", 0.21, 0.55], ["record", 0.10, 0.175]]),
    "Figure 5": ("throughput with kernel calls, % of that with spin locks", ["test", "%"],
                 [[name, part] for name, part in KERNEL_LATCHES.items()]),
    "Figure 6": ("single user", ["configuration", "transactions/s", "of LIBTP's"],
                 [[name, tps, tps / SINGLE_USER["LIBTP"]] for name, tps in SINGLE_USER.items()]),
    "Figure 7": ("large database", ["processes", "transactions/s"], by_processes(tps=LARGE)),
    "Figure 8": ("small database, transactions/s", ["processes", "READ-ONLY", "NO-FSYNC"],
                 by_processes(reads=READ_ONLY, writes=NO_FSYNC)),
    "Figure 9": ("aborts per 500 transactions", ["processes", "SMALL", "LARGE"],
                 by_processes(small=ABORTS_SMALL, large=ABORTS_LARGE)),
    "Table 2": ("OO1, local, caches cleared, s", ["measure", "INDEX", "OODBMS", "RDBMS", "LIBTP"],
                [["lookup", 5.4, 12.9, 27, 27.2], ["traversal", 13, 9.8, 90, 47.3],
                 ["insert", 7.4, 1.5, 22, 9.7]]),
    "Table 3": ("OO1 of LIBTP, s", ["measure", "cache", "local", "remote"],
                [["lookup", "cold", 15.7, 20.6], ["", "warm", 7.8, 12.4],
                 ["forward traversal", "cold", 28.4, 52.6], ["", "warm", 23.5, 47.4],
                 ["backward traversal", "cold", 24.2, 47.4], ["", "warm", 24.3, 47.6],
                 ["insert", "cold", 7.5, 10.3], ["", "warm", 6.7, 10.9]]),
}

# What was wanted here (issue 51).
OF_NOTP_MIN = 0.83  # figure 6
OF_FSYNC_MIN = 1.7
OF_BSD_MIN = 0.8  # private files, beside 4.4BSD's own code
OF_BERKELEY_OO1_MIN = 1.0
