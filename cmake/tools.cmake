# The tmh command. Its target is tmh_tool, because the library's target is tmh.
file(GLOB tmh_tools CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/*.cpp")
if(tmh_tools)
  add_executable(tmh_tool ${tmh_tools})
  set_target_properties(tmh_tool PROPERTIES OUTPUT_NAME tmh)
  target_include_directories(tmh_tool PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(tmh_tool PRIVATE tmh_warnings tmh::tmh_static CLI11::CLI11 fmt::fmt)
endif()
