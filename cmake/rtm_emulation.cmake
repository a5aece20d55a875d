# libtmh-rtm-emulation.so: RTM transactions without RTM (rtm_emulator). x86-64 Linux;
# shared only, because it stands before libc's functions and is also loaded by LD_PRELOAD. Not with
# sanitizers or coverage: their instrumentation would run in the middle of transactions that the
# emulator interprets, with vector registers that it must not touch.
set(TMH_HAVE_RTM_EMULATION FALSE)
# tmh_no_rtm_emulation(<why>)
macro(tmh_no_rtm_emulation why)
  tmh_optional("RTM emulator" TMH_HAVE_RTM_EMULATION "${why}")
  return()
endmacro()
if(NOT TMH_BUILD_RTM_EMULATION)
  tmh_no_rtm_emulation("TMH_BUILD_RTM_EMULATION is OFF")
elseif(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux" OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES
  "^(x86_64|AMD64)$")
  tmh_no_rtm_emulation("it is for x86-64 Linux")
elseif(TMH_SANITIZE OR TMH_COVERAGE)
  tmh_no_rtm_emulation("not with sanitizers or coverage")
elseif(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  tmh_no_rtm_emulation("it needs GCC (copies of structs without calls to memcpy)")
elseif(NOT zydis_FOUND)
  tmh_no_rtm_emulation("libzydis-dev is missing")
endif()
set(TMH_HAVE_RTM_EMULATION TRUE)
tmh_optional("RTM emulator" TMH_HAVE_RTM_EMULATION "")
file(GLOB tmh_rtm_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/rtm_emulator/*.cpp")
add_library(tmh_rtm_emulation SHARED ${tmh_rtm_sources})
target_include_directories(tmh_rtm_emulation PRIVATE "${PROJECT_SOURCE_DIR}"
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# While a transaction runs, its vector registers are live in the processor: none of this code may
# use any, or call what does. -O2 always: unoptimized code calls memcpy for eight bytes
# (tests/house/live_vectors.py looks).
# now, no-as-needed: no lazy binding inside; a program that is linked with the emulator names none
# of its functions. nodelete: its signal handlers stay installed when whoever brought it along by
# dlopen() goes.
target_compile_options(tmh_rtm_emulation PRIVATE -O2 -mgeneral-regs-only
  -mmemcpy-strategy=rep_8byte:-1:noalign
  -mmemset-strategy=rep_8byte:-1:noalign -fno-tree-loop-distribute-patterns -fno-threadsafe-statics
  -fno-stack-protector -fno-exceptions
  -fvisibility=hidden -fvisibility-inlines-hidden -ftls-model=initial-exec)
target_link_options(tmh_rtm_emulation PRIVATE LINKER:-z,now LINKER:-z,defs LINKER:-z,nodelete
  INTERFACE LINKER:--no-as-needed)
target_link_libraries(tmh_rtm_emulation PRIVATE tmh_warnings Zydis::Zydis Threads::Threads
  ${CMAKE_DL_LIBS})
set_target_properties(tmh_rtm_emulation PROPERTIES OUTPUT_NAME tmh-rtm-emulation
  EXPORT_NAME rtm_emulation)
add_library(tmh::rtm_emulation ALIAS tmh_rtm_emulation)
