// examples/itm/support/build.cpp -- the only file besides transactions that each build compiles.
#include "examples/itm/support/counts.h"

namespace itm {

#if defined(TMH_ITM)
const char *const kBuild = "itm";
#elif defined(TMH_MUTEX)
const char *const kBuild = "mutex";
#elif defined(TMH_PLAIN)
const char *const kBuild = "plain";
#endif

}  // namespace itm
