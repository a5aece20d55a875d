# TinySTM, an opponent of bench/line that Debian has no package of: TMH_TINYSTM names a folder in
# which its own `make` has left include/stm.h and lib/libstm.a. Also runs alone: cmake
# -DTMH_TINYSTM=<folder> -P tinystm.cmake says whether it will do.
set(TMH_TINYSTM "" CACHE PATH
  "Folder where TinySTM 1.0.4 or later is built, for bench/line; empty: without it")
if(TMH_TINYSTM)
  foreach(file include/stm.h lib/libstm.a)
    if(NOT EXISTS "${TMH_TINYSTM}/${file}" OR IS_DIRECTORY "${TMH_TINYSTM}/${file}")
      message(FATAL_ERROR
        "TMH_TINYSTM=${TMH_TINYSTM}: there is no ${file} (build \
TinySTM there with its own make, or leave TMH_TINYSTM empty)")
    endif()
  endforeach()
  # Before 1.0.4 transactions were started by other calls.
  file(STRINGS "${TMH_TINYSTM}/include/stm.h" version REGEX "define +STM_VERSION_NB +[0-9]+")
  if(NOT version MATCHES "STM_VERSION_NB +([0-9]+)" OR CMAKE_MATCH_1 LESS 104)
    message(FATAL_ERROR
      "TMH_TINYSTM=${TMH_TINYSTM}: its include/stm.h is not that of TinySTM 1.0.4 or later")
  endif()
endif()
