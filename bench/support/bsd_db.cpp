// bench/support/bsd_db.cpp -- 4.4BSD's dbopen() out of a library that is loaded when it is asked
// for. Its DB and its BTREEINFO are those of <tp/db.h>.
#include "bench/support/bsd_db.h"

#include <dlfcn.h>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr const char *kLibrary = "libdb1.so.2";

void *library() {
  // Its names are not ours: both have a dbopen().
  static void *const loaded = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  return loaded;
}

}  // namespace

std::string why_no_bsd_db() {
  if (library() == nullptr) return std::string(kLibrary) + " is not there (Debian: libdb1-compat)";
  return ::dlsym(library(), "dbopen") == nullptr ? std::string(kLibrary) + " has no dbopen()" : "";
}

DbOpen bsd_dbopen() {
  TMH_ASSERT(why_no_bsd_db().empty());
  return reinterpret_cast<DbOpen>(::dlsym(library(), "dbopen"));
}

}  // namespace tmh::bench
