# What `cmake --install` gives: headers, libargosy.so, the command,
# find_package(Argosy CONFIG), pkg-config.
include(CMakePackageConfigHelpers)

set(ARGOSY_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Argosy)

install(TARGETS argosy EXPORT ArgosyTargets FILE_SET HEADERS)
install(EXPORT ArgosyTargets NAMESPACE Argosy:: DESTINATION ${ARGOSY_CMAKE_DIR})

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/ArgosyConfig.cmake.in
  ${PROJECT_BINARY_DIR}/ArgosyConfig.cmake
  INSTALL_DESTINATION ${ARGOSY_CMAKE_DIR})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/ArgosyConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(
  FILES
    ${PROJECT_BINARY_DIR}/ArgosyConfig.cmake
    ${PROJECT_BINARY_DIR}/ArgosyConfigVersion.cmake
  DESTINATION ${ARGOSY_CMAKE_DIR})

# Torch has no pkg-config file of its own, so ours carries its flags.
list(TRANSFORM TORCH_INCLUDE_DIRS PREPEND "-I" OUTPUT_VARIABLE torch_includes)
list(JOIN torch_includes " " ARGOSY_PC_TORCH_INCLUDES)
get_target_property(torch_location torch LOCATION)
get_filename_component(ARGOSY_PC_TORCH_LIBDIR ${torch_location} DIRECTORY)
get_target_property(argosy_definitions argosy INTERFACE_COMPILE_DEFINITIONS)
list(TRANSFORM argosy_definitions PREPEND "-D")
list(JOIN argosy_definitions " " ARGOSY_PC_DEFINITIONS)
string(REPLACE ";" " " ARGOSY_PC_TORCH_FLAGS "${TORCH_CXX_FLAGS}")
# The prefix is known at install time only (cmake --install --prefix), so the
# first pass leaves its name for the second.
set(ARGOSY_PC_PREFIX "@ARGOSY_PREFIX@")
configure_file(
  ${PROJECT_SOURCE_DIR}/cmake/argosy.pc.in ${PROJECT_BINARY_DIR}/argosy.pc.in
  @ONLY)
install(CODE "
  set(ARGOSY_PREFIX \"\${CMAKE_INSTALL_PREFIX}\")
  configure_file(\"${PROJECT_BINARY_DIR}/argosy.pc.in\"
    \"${PROJECT_BINARY_DIR}/argosy.pc\" @ONLY)
")
install(
  FILES ${PROJECT_BINARY_DIR}/argosy.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
