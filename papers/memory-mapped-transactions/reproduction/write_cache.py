"""write_cache.py -- whether a folder's device says that it has a volatile write cache
(table C.12)."""
import os


def of_folder(folder, sysfs="/sys"):
    """"write back" or "write through", as the kernel says; else why it is unknown."""
    device = os.stat(folder).st_dev
    place = f"{sysfs}/dev/block/{os.major(device)}:{os.minor(device)}"
    # a partition's queue is its disk's
    for path in (place + "/queue/write_cache", place + "/../queue/write_cache"):
        try:
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
        except OSError:
            continue
    return "unknown: the file system is on no block device of its own"
