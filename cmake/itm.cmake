# TMH_HAVE_ITM: whether this compiler makes programs of -fgnu-tm. TMH_ITM_FLAGS: how such a source
# is compiled.
include_guard(GLOBAL)
include(CheckCXXSourceCompiles)
if(NOT TMH_HAVE_ITM)
  unset(TMH_HAVE_ITM CACHE)  # libitm may have come since
endif()
set(CMAKE_REQUIRED_QUIET TRUE)
set(CMAKE_REQUIRED_FLAGS -fgnu-tm)
check_cxx_source_compiles("int x; int main() { __transaction_atomic { ++x; } }" TMH_HAVE_ITM)
unset(CMAKE_REQUIRED_FLAGS)
unset(CMAKE_REQUIRED_QUIET)
tmh_optional("libitm (bench, examples)" TMH_HAVE_ITM "this compiler has no working -fgnu-tm")

# g++ 12 fails with an internal error on the trap that it isolates where a null pointer would be
# used, and makes of a loop that moves words a memmove() that no transaction sees. clobbered: of
# what -fgnu-tm itself generates.
set(TMH_ITM_FLAGS -fgnu-tm -fno-isolate-erroneous-paths-dereference
  -fno-tree-loop-distribute-patterns -Wno-clobbered)
