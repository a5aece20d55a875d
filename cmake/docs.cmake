# The site of the public headers and READMEs: cmake --build ... --target docs, in
# build/<preset>/docs. Only where doxygen is found.
tmh_look_again(TMH_DOXYGEN)
find_program(TMH_DOXYGEN doxygen)
find_package(Python3 QUIET COMPONENTS Interpreter)
set(TMH_HAVE_DOCS FALSE)
if(TMH_DOXYGEN AND Python3_FOUND)
  set(TMH_HAVE_DOCS TRUE)
endif()
tmh_optional("site of the headers" TMH_HAVE_DOCS "doxygen or python3 is missing")
if(TMH_HAVE_DOCS)
  # Relative: the folder's name may be no regular expression.
  file(GLOB_RECURSE readmes RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/*README.md")
  list(FILTER readmes EXCLUDE REGEX "^build/")
  list(TRANSFORM readmes PREPEND "${PROJECT_SOURCE_DIR}/")
  file(GLOB documents CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/*.md")
  list(FILTER documents EXCLUDE REGEX "/README\\.md$")
  list(APPEND readmes "${PROJECT_SOURCE_DIR}/ARCHITECTURE.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
    ${documents} "${PROJECT_SOURCE_DIR}/hierarchy/exchange/PROTOCOL.md"
    "${PROJECT_SOURCE_DIR}/storage/log/FORMAT.md")
  list(TRANSFORM readmes REPLACE "(.+)" "\"\\1\"")
  set(TMH_DOCS_FILTER "${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/docs/filter.py")
  set(TMH_DOCS_DIR "${PROJECT_BINARY_DIR}/docs")
  # tmh_doxyfile(<name> <html> <xml> <inputs...>)
  function(tmh_doxyfile name TMH_DOCS_HTML TMH_DOCS_XML)
    list(JOIN ARGN " " TMH_DOCS_INPUT)
    configure_file("${PROJECT_SOURCE_DIR}/docs/Doxyfile.in" "${PROJECT_BINARY_DIR}/docs/${name}"
      @ONLY)
  endfunction()
  tmh_doxyfile(Doxyfile YES NO "\"${PROJECT_SOURCE_DIR}/include\"" ${readmes})
  tmh_doxyfile(Doxyfile.headers NO YES "\"${PROJECT_SOURCE_DIR}/include\"")
  add_custom_target(docs COMMAND "${TMH_DOXYGEN}" "${TMH_DOCS_DIR}/Doxyfile"
                    COMMENT "${TMH_DOCS_DIR}/index.html" VERBATIM)
endif()
