// bench/support/bsd_db.h -- db(3) as 4.4BSD published it, version 1.85, where a library has it: a
// contestant of our private files.
// Source:    Debian's libdb1-compat (libdb1.so.2): the code that was in glibc 2.1.
#pragma once

#include <tp/db.h>

#include <string>

namespace tmh::bench {

using DbOpen = DB *(*)(const char *file, int flags, int mode, DBTYPE type, const void *openinfo);

// Empty, or why it cannot take part.
[[nodiscard]] std::string why_no_bsd_db();
// REQUIRES: why_no_bsd_db() is empty.
[[nodiscard]] DbOpen bsd_dbopen();

}  // namespace tmh::bench
