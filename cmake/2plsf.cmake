# 2PLSF, an opponent of bench/sets that Debian has no package of: TMH_2PLSF names a folder with its
# header, stms/2PLSF.hpp. Also runs alone: cmake -DTMH_2PLSF=<folder> -P 2plsf.cmake says whether it
# will do.
set(TMH_2PLSF "" CACHE PATH "Folder with stms/2PLSF.hpp, for bench/sets; empty: without it")
if(TMH_2PLSF AND (NOT EXISTS "${TMH_2PLSF}/stms/2PLSF.hpp" OR
                  IS_DIRECTORY "${TMH_2PLSF}/stms/2PLSF.hpp"))
  message(FATAL_ERROR "TMH_2PLSF=${TMH_2PLSF}: there is no stms/2PLSF.hpp (or leave it empty)")
endif()
